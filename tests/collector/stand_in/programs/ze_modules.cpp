// The modules of the driver of Level Zero: native code that is placed in a device's memory, at the lowest place that is free.
#include "ze_modules.hpp"

#include <elf.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sleeper {

namespace {

constexpr uint64_t kFirst = 0xffff800100000000, kPlace = 1 << 20;
std::set<uint64_t> taken;

struct Log {
  FILE* file = getenv("ZE_DRIVER_MODULES") ? fopen(getenv("ZE_DRIVER_MODULES"), "w") : nullptr;
  void add(const char* what, uint64_t address) {
    if (file) fprintf(file, "%s %llu %llu\n", what, (unsigned long long)address, (unsigned long long)now_ns()), fflush(file);
  }
} log;

template <class Type>
Type* at(std::vector<uint8_t>& file, uint64_t offset) {
  expect(offset + sizeof(Type) <= file.size(), "a module that is cut short");
  return reinterpret_cast<Type*>(file.data() + offset);
}

// The sections of code one behind the other, and the symbols in them moved with them.
void place(Module& module) {
  auto* header = at<Elf64_Ehdr>(module.file, 0);
  header->e_type = ET_EXEC;
  uint64_t next = module.address;
  for (uint16_t number = 0; number < header->e_shnum; number++) {
    auto* section = at<Elf64_Shdr>(module.file, header->e_shoff + number * sizeof(Elf64_Shdr));
    if (!(section->sh_flags & SHF_EXECINSTR)) continue;
    section->sh_addr = next;
    next += (section->sh_size + 0xff) & ~0xffull;
  }
  for (uint16_t number = 0; number < header->e_shnum; number++) {
    auto* table = at<Elf64_Shdr>(module.file, header->e_shoff + number * sizeof(Elf64_Shdr));
    if (table->sh_type != SHT_SYMTAB) continue;
    for (uint64_t offset = 0; offset < table->sh_size; offset += sizeof(Elf64_Sym)) {
      auto* symbol = at<Elf64_Sym>(module.file, table->sh_offset + offset);
      if (symbol->st_shndx < header->e_shnum)
        symbol->st_value += at<Elf64_Shdr>(module.file, header->e_shoff + symbol->st_shndx * sizeof(Elf64_Shdr))->sh_addr;
    }
  }
}

}  // namespace

Module::~Module() {
  if (!address) return;
  taken.erase(address);
  log.add("unload", address);
}

ze_result_t module_create(ze_context_handle_t, ze_device_handle_t, const ze_module_desc_t* desc, ze_module_handle_t* module,
                          ze_module_build_log_handle_t*) {
  std::lock_guard lock(mutex);
  auto* made = new Module;
  if (desc->format == ZE_MODULE_FORMAT_NATIVE) {
    made->file.assign(desc->pInputModule, desc->pInputModule + desc->inputSize);
    for (made->address = kFirst; taken.count(made->address); made->address += kPlace) continue;
    taken.insert(made->address);
    place(*made);
    log.add("load", made->address);
  }
  return give(module, made);
}

// A call of another module's function has its address from here on.
ze_result_t module_link(uint32_t count, ze_module_handle_t* modules, ze_module_build_log_handle_t*) {
  std::lock_guard lock(mutex);
  for (uint32_t number = 0; number < count; number++) {
    Module& module = the<Module>(modules[number]);
    expect(module.address, "a module of its own needs no linking");
    auto* header = at<Elf64_Ehdr>(module.file, 0);
    for (uint16_t place = 0; place < header->e_shnum; place++) {
      auto* section = at<Elf64_Shdr>(module.file, header->e_shoff + place * sizeof(Elf64_Shdr));
      if (section->sh_flags & SHF_EXECINSTR) module.file[section->sh_offset + 12] ^= 0x5a;
    }
    log.add("link", module.address);
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t module_debug_info(zet_module_handle_t handle, zet_module_debug_info_format_t format, size_t* size, uint8_t* bytes) {
  if (getenv("ZE_DRIVER_NO_CODE")) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  std::lock_guard lock(mutex);
  expect(format == ZET_MODULE_DEBUG_INFO_FORMAT_ELF_DWARF, "a format of debug information that does not exist");
  Module& module = the<Module>(handle);
  if (bytes && *size < module.file.size()) return ZE_RESULT_ERROR_INVALID_SIZE;
  if (bytes) memcpy(bytes, module.file.data(), module.file.size());
  *size = module.file.size();
  return ZE_RESULT_SUCCESS;
}

}  // namespace sleeper
