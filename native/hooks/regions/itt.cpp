// ITT: the library that INTEL_LIBITTNOTIFY64 names (native/agent) is asked once by each library of the program that has ITT in it, and
// puts our functions into that library's table. From then on the client asks us for every handle: without our answer it would do without,
// or crash.
//
// Runtimes mark each parallel region and each primitive for their vendor's tools: thousands a second that say nothing about the program.
// They are left out unless AIFLAME_ITT=all.
#include "hooks/regions/interned_texts.hpp"
#include "hooks/regions/itt_internal.hpp"
#include "hooks/shared/exported.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <dlfcn.h>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace aiflame::itt {

namespace {

constexpr std::string_view kQuietLibraries[] = {"libiomp", "libomp", "libtbb"};
constexpr std::string_view kQuietDomains[] = {"dnnl::", "oneDNN::", "tbb.", "TBB"};

constinit std::atomic<Domain*> domains{nullptr};
constinit std::atomic<StringHandle*> strings{nullptr};

bool all_wanted() noexcept {
  const char* wanted = getenv("AIFLAME_ITT");
  return wanted && strcmp(wanted, "all") == 0;
}

template <size_t kSize>
bool begins_with_one(std::string_view text, const std::string_view (&beginnings)[kSize]) noexcept {
  for (std::string_view beginning : beginnings)
    if (text.starts_with(beginning)) return true;
  return false;
}

bool is_quiet(std::string_view domain) noexcept { return begins_with_one(domain, kQuietDomains) && !all_wanted(); }

bool is_quiet(const Global* client) noexcept {
  Dl_info library;
  if (!dladdr(client, &library) || !library.dli_fname) return false;
  const char* slash = strrchr(library.dli_fname, '/');
  return begins_with_one(slash ? slash + 1 : library.dli_fname, kQuietLibraries) && !all_wanted();
}

// The handle with this name, made when it is new. Two threads that come first at the same moment may each make one: handles are compared
// by name, not by address.
template <class Handle, class Fill>
Handle* handle(std::atomic<Handle*>& list, std::string_view name, const char* Handle::* named, Fill fill) noexcept {
  for (Handle* known = list.load(std::memory_order_acquire); known; known = known->next)
    if (view(known->*named) == name) return known;
  auto* made = interned::thing<Handle>();
  if (!made) return nullptr;
  made->*named = interned::copy(name).data();
  fill(*made);
  made->next = list.load(std::memory_order_relaxed);
  while (!list.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
  }
  return made;
}

Domain* domain_create(const char* name) noexcept {
  return handle(domains, view(name), &Domain::name, [](Domain& made) { made.flags = !is_quiet(view(made.name)); });
}

StringHandle* string_handle_create(const char* text) noexcept {
  return handle(strings, view(text), &StringHandle::text, [](StringHandle&) {});
}

void put(void* client, const Entry& ours) noexcept {
  for (ApiInfo* function = static_cast<Global*>(client)->functions; function->name; function++)
    if (ours.name == function->name) *function->function = ours.function;
}

}  // namespace

void serve(Global& client, bool wanted) noexcept {
  // A function that we do not serve costs the client nothing: it calls none.
  for (ApiInfo* function = client.functions; function->name; function++) *function->function = function->null_function;
  put(&client, entry("__itt_domain_create", domain_create));
  put(&client, entry("__itt_string_handle_create", string_handle_create));
  if (!wanted) return;
  each_of_tasks(&client, put);
  each_of_regions(&client, put);
  each_of_counters(&client, put);
  for (Domain* domain = client.domains; domain; domain = domain->next)
    if (is_quiet(view(domain->name))) domain->flags = 0;
}

}  // namespace aiflame::itt

using namespace aiflame;

AIFLAME_EXPORT void aiflame_itt_initialize(itt::Global* client, unsigned) noexcept {
  constexpr unsigned char kMagic[8] = {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30};
  if (!client || memcmp(client->magic, kMagic, sizeof kMagic) != 0 || !client->functions) return;
  if (client->version_major != 3 || client->version_build < itt::kOldestBuild)
    return spool::note("ITT: a library has a version of ITT that is not known: what it marks is not recorded");
  itt::serve(*client, control::has(schema::Feature::ITT) && !itt::is_quiet(client));
}
