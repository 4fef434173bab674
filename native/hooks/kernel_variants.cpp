#include "hooks/kernel_variants.hpp"

#include "spool/spool.hpp"

namespace aiflame::kernel_variants {

uint32_t add(uint64_t, std::string_view name, std::string_view readable, std::string_view details) noexcept {
  return spool::append(schema::KernelVariant{.name = spool::text(name), .readable = spool::text(readable), .details = spool::text(details)});
}

uint32_t of(uint64_t) noexcept { return 0; }

}  // namespace aiflame::kernel_variants
