// `waits_in_c WHAT SECONDS`: the main thread waits for another one by a mutex, a read-write lock, a semaphore, a barrier, or a condition
// variable. The other thread sleeps with it for four fifths of the time.

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static volatile int over, ready;
static double seconds;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void *holds_mutex(void *unused) {
  while (!over) {
    pthread_mutex_lock(&mutex);
    usleep(40000);
    pthread_mutex_unlock(&mutex);
    usleep(10000);
  }
  return unused;
}

static void *holds_rwlock(void *unused) {
  while (!over) {
    pthread_rwlock_wrlock(&rwlock);
    usleep(40000);
    pthread_rwlock_unlock(&rwlock);
    usleep(10000);
  }
  return unused;
}

static void *posts(void *unused) {
  while (!over) {
    usleep(40000);
    sem_post(&semaphore);
  }
  return unused;
}

static void *arrives_late(void *unused) {
  while (!over) {
    usleep(40000);
    pthread_barrier_wait(&barrier);
  }
  return unused;
}

static void *signals(void *unused) {
  while (!over) {
    usleep(40000);
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}

static void takes_mutex(void) {
  pthread_mutex_lock(&mutex);  // mutex
  pthread_mutex_unlock(&mutex);
}

static void takes_rwlock(void) {
  pthread_rwlock_rdlock(&rwlock);  // rwlock
  pthread_rwlock_unlock(&rwlock);
}

static void takes_semaphore(void) {
  sem_wait(&semaphore);  // semaphore
}

static void meets(void) {
  pthread_barrier_wait(&barrier);  // barrier
}

static void hears(void) {
  pthread_mutex_lock(&mutex);
  while (!ready) pthread_cond_wait(&condition, &mutex);  // condition
  ready = 0;
  pthread_mutex_unlock(&mutex);
}

static struct {
  const char *name;
  void *(*other)(void *);
  void (*waits)(void);
} ways[] = {
    {"mutex", holds_mutex, takes_mutex}, {"rwlock", holds_rwlock, takes_rwlock}, {"semaphore", posts, takes_semaphore},
    {"barrier", arrives_late, meets},    {"condition", signals, hears},
};

int main(int count, char **given) {
  if (count < 3) return 2;
  seconds = atof(given[2]);
  sem_init(&semaphore, 0, 0);
  pthread_barrier_init(&barrier, NULL, 2);
  for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
    if (strcmp(ways[way].name, given[1]) != 0) continue;
    pthread_t thread;
    pthread_create(&thread, NULL, ways[way].other, NULL);
    for (double end = now() + seconds; now() < end;) {
      ways[way].waits();
      for (volatile int turn = 0; turn < 200000; turn++) {}
    }
    over = 1;
    return 0;  // the other thread may stand in a barrier
  }
  return 2;
}
