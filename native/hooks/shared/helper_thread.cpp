#include "hooks/shared/helper_thread.hpp"

#include <pthread.h>
#include <signal.h>

namespace aiflame::hooks {

bool start_helper_thread(void* (*work)(void*)) noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  bool started = pthread_create(&thread, &attributes, work, nullptr) == 0;
  if (started) pthread_setname_np(thread, "aiflame");
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace aiflame::hooks
