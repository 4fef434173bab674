#include "records/launcher.hpp"

#include "spool/spool.hpp"

#include <unistd.h>
#include <cstdlib>
#include <string_view>

namespace aiflame::launcher {

namespace {

constexpr uint32_t kUnknown = ~0u;

struct Variables {
  const char *launcher, *rank, *size, *local_rank, *job;
};
// torchrun runs inside the others (one on each node), so its variables come first.
constexpr Variables kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE"},
    {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI_JOBID"},
    {"pmix", "PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", "PMIX_NAMESPACE"},
    {"slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_JOB_ID"},
};

uint32_t number(const char* variable, uint32_t without) noexcept {
  const char* text = getenv(variable);
  if (!text || *text < '0' || *text > '9') return without;
  char* end;
  unsigned long value = strtoul(text, &end, 10);
  return *end || value >= kUnknown ? without : static_cast<uint32_t>(value);
}

// Most environments have none of these variables, as the first letters of each name show: most processes read no more.
bool may_be_rank(const char* name) noexcept {
  switch (name[0]) {
    case 'O':
      return name[1] == 'M' && name[2] == 'P' && name[3] == 'I';
    case 'P':
      return name[1] == 'M' && name[2] == 'I';
    case 'R':
      return name[1] == 'A' && name[2] == 'N' && name[3] == 'K';
    case 'S':
      return name[1] == 'L' && name[2] == 'U';
    default:
      return false;
  }
}

bool may_have_rank() noexcept {
  for (char** entry = environ; entry && *entry; entry++)
    if (may_be_rank(*entry)) return true;
  return false;
}

}  // namespace

void write_rank() noexcept {
  if (!may_have_rank()) return;
  for (const Variables& of : kLaunchers) {
    uint32_t rank = number(of.rank, kUnknown), size = number(of.size, 0);
    // RANK alone may be any program's variable. Slurm's batch script has a rank, too, but is no step.
    bool sure = size != 0 || std::string_view(of.launcher) == "pmix";
    if (rank == kUnknown || !sure) continue;
    const char* job = getenv(of.job);
    spool::append(schema::RankRecord{.rank = rank,
                                     .size = size,
                                     .local_rank = number(of.local_rank, kUnknown),
                                     .launcher = spool::text(of.launcher),
                                     .job = spool::text(job ? job : "")});
    return;
  }
}

}  // namespace aiflame::launcher
