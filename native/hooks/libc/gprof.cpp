// Programs that were compiled for gprof (-pg), or that call profil(): libc sets a handler of its own for SIGPROF, past sigaction(). Ours goes
// in front of it again at once: its ticks are passed on to it, and it would count ours.
#include "hooks/shared/exported.hpp"
#include "sampler/signals.hpp"

namespace aiflame::hooks {

namespace {

Real<void(unsigned long, unsigned long), "__monstartup"> real_monstartup;
Real<void(int), "moncontrol"> real_moncontrol;
Real<int(unsigned short*, size_t, size_t, unsigned), "profil"> real_profil;

void handler_was_set() noexcept {
  if (own_process()) signals::keep();
}

}  // namespace

}  // namespace aiflame::hooks

using namespace aiflame::hooks;

AIFLAME_EXPORT void aiflame_monstartup(unsigned long low, unsigned long high) noexcept asm("__monstartup");
void aiflame_monstartup(unsigned long low, unsigned long high) noexcept {
  real_monstartup(low, high);
  handler_was_set();
}

AIFLAME_EXPORT void aiflame_moncontrol(int mode) noexcept asm("moncontrol");
void aiflame_moncontrol(int mode) noexcept {
  real_moncontrol(mode);
  handler_was_set();
}

AIFLAME_EXPORT int aiflame_profil(unsigned short* buffer, size_t bytes, size_t offset, unsigned scale) noexcept asm("profil");
int aiflame_profil(unsigned short* buffer, size_t bytes, size_t offset, unsigned scale) noexcept {
  int result = real_profil(buffer, bytes, offset, scale);
  handler_was_set();
  return result;
}
