#include "hooks/stand_in/level_zero_modules.hpp"

#include "base/clock.hpp"
#include "base/sys.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <cstdio>

namespace aiflame::level_zero {

namespace {

constexpr size_t kLargest = size_t{1} << 30;

// The driver's copy of a module's code for debuggers.
class DebugFile {
 public:
  DebugFile(const Api& api, Handle module) noexcept {
    if (!api.zetModuleGetDebugInfo || api.zetModuleGetDebugInfo(module, kElfDwarf, &size_, nullptr) != kSuccess) {
      spool::note("Level Zero: a driver does not hand out the code of its modules: their kernels have times, but no stall samples");
      return;
    }
    if (!size_ || size_ > kLargest) return;
    room_ = size_;
    bytes_ = static_cast<uint8_t*>(sys::map_memory(room_));
    if (bytes_ && (api.zetModuleGetDebugInfo(module, kElfDwarf, &size_, bytes_) != kSuccess || size_ > room_)) size_ = 0;
  }
  ~DebugFile() {
    if (bytes_) sys::unmap_memory(bytes_, room_);
  }
  DebugFile(const DebugFile&) = delete;
  DebugFile& operator=(const DebugFile&) = delete;

  const uint8_t* bytes() const noexcept { return bytes_; }
  size_t size() const noexcept { return bytes_ ? size_ : 0; }

 private:
  uint8_t* bytes_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

intel_code::Load load(const Api& api, const char* device, Handle module, uint64_t time_ns) noexcept {
  DebugFile file(api, module);
  return file.size() ? intel_code::loaded(spool::text(device), time_ns, file.bytes(), file.size()) : intel_code::Load{};
}

}  // namespace

void module_made(const Api& api, Handle context_device, Handle module, uint64_t time_ns) noexcept {
  if (!control::recording()) return;
  Device* known;
  {
    Guard guard;
    known = device(api, context_device);
    if (known) write_address(api, *known);
  }
  if (!known) return;
  intel_code::Load made = load(api, known->name, module, time_ns);
  Guard guard;
  if (Object* object = add(Kind::MODULE, module)) {
    object->device = known;
    object->load = made;
  }
}

void module_linked(const Api& api, Handle module, uint64_t time_ns) noexcept {
  Device* known;
  {
    Guard guard;
    Object* object = find(Kind::MODULE, module);
    known = object ? object->device : nullptr;
  }
  if (!known) return;
  intel_code::Load now = load(api, known->name, module, time_ns);
  if (!now.row) return;
  Guard guard;
  Object* object = find(Kind::MODULE, module);
  if (!object) return;
  intel_code::unloaded(object->load, time_ns);
  object->load = now;
}

void module_goes(Handle module) noexcept {
  Guard guard;
  Object* object = find(Kind::MODULE, module);
  if (!object) return;
  intel_code::unloaded(object->load, now_ns());
  remove(*object);
}

void write_address(const Api& api, Device& device) noexcept {
  uint32_t era = spool::era();
  if (device.address_era == era || !api.zeDevicePciGetPropertiesExt) return;
  device.address_era = era;
  PciProperties properties{};
  properties.type = kPciProperties;
  if (api.zeDevicePciGetPropertiesExt(device.handle, &properties) != kSuccess) return;
  char text[32];
  int size = snprintf(text, sizeof text, "%04X:%02X:%02X.%X", properties.domain, properties.bus, properties.device, properties.function);
  if (size <= 0 || size >= static_cast<int>(sizeof text)) return;
  spool::append(schema::GpuDevice{.device = spool::text(device.name), .address = spool::text({text, static_cast<size_t>(size)})});
}

}  // namespace aiflame::level_zero
