// Says that modules may have gone. (dlopen stays libc's own: it looks at its caller's address for RPATH and namespaces.)
#include "hooks/libc/resolve.hpp"
#include "hooks/shared/exported.hpp"
#include "unwind/modules.hpp"

namespace aiflame::hooks {

namespace {
Real<int(void*), "dlclose"> real_dlclose;
}

void resolve_dlclose() noexcept { find_all(real_dlclose); }

}  // namespace aiflame::hooks

AIFLAME_EXPORT int dlclose(void* handle) noexcept {
  int result = aiflame::hooks::real_dlclose(handle);
  aiflame::modules::changed();
  return result;
}
