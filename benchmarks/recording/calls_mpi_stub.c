/* An MPI that does nothing: what remains is the cost of tracing. A library for calls.py. */
#include <stdint.h>
#include <string.h>

typedef int Comm, Type, Group;

int PMPI_Init(void* count, void* arguments) { return count || arguments; }
int PMPI_Initialized(int* is) { return *is = 1, 0; }
int PMPI_Type_size(Type type, int* size) { return *size = (type >> 8) & 0xFF, 0; }
int PMPI_Comm_rank(Comm comm, int* rank) { return *rank = comm == 0, 0; }
int PMPI_Comm_size(Comm comm, int* size) { return *size = 1 + (comm == 0), 0; }
int PMPI_Comm_group(Comm comm, Group* group) { return *group = comm, 0; }
int PMPI_Comm_get_name(Comm comm, char* name, int* length) { return strcpy(name, "stub"), *length = 4 + (comm == 0), 0; }
int PMPI_Group_rank(Group group, int* rank) { return *rank = group == 0, 0; }
int PMPI_Group_size(Group group, int* size) { return *size = 1 + (group == 0), 0; }
int PMPI_Group_free(Group* group) { return *group = 0, 0; }
int PMPI_Group_translate_ranks(Group from, int count, const int* ranks, Group to, int* out) {
  memcpy(out, ranks, sizeof *ranks * (unsigned)count);
  return from != to;
}
int PMPI_Send(const void* data, int count, Type type, int to, int tag, Comm comm) { return data == 0 && count + type + to + tag + comm == 0; }
int PMPI_Test(void* request, int* flag, void* status) { return *flag = request == status, 0; }

#define ALSO(name, ...) extern __typeof(PMPI_##name) MPI_##name __attribute__((weak, alias("PMPI_" #name)));
ALSO(Init) ALSO(Send) ALSO(Test)
