/* Writes a file by MPI-IO, each process its part of MIB mebibytes, and reads
 * what the next process wrote. Prints MB/s of both, over all processes. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHUNK = 1 << 20 };

static void stop(const char *what) {
  fprintf(stderr, "%s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 3) stop("usage: mpiio FILE MIB");
  int chunks = atoi(argv[2]);
  uint64_t *buffer = malloc(CHUNK);
  MPI_File file;
  if (!buffer || MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) stop("cannot open");
  double took[2];
  for (int reading = 0; reading < 2; reading++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int i = 0; i < chunks; i++) {
      MPI_Offset at = ((MPI_Offset)((rank + reading) % size) * chunks + i) * CHUNK;
      MPI_Status status;
      int n = 0;
      if (!reading)
        for (int k = 0; k < CHUNK / 8; k++) buffer[k] = at + k;
      int failed = reading ? MPI_File_read_at(file, at, buffer, CHUNK, MPI_BYTE, &status) : MPI_File_write_at(file, at, buffer, CHUNK, MPI_BYTE, &status);
      if (failed) stop(reading ? "cannot read" : "cannot write");
      MPI_Get_count(&status, MPI_BYTE, &n);
      if (n != CHUNK) stop("short");
      if (reading)
        for (int k = 0; k < CHUNK / 8; k++)
          if (buffer[k] != (uint64_t)(at + k)) stop("not what the other process wrote");
    }
    if (MPI_File_sync(file)) stop("cannot sync");
    MPI_Barrier(MPI_COMM_WORLD);
    took[reading] = MPI_Wtime() - begun;
    MPI_File_sync(file);
  }
  MPI_File_close(&file);
  if (rank == 0) printf("write %.1f read %.1f\n", size * (double)chunks * CHUNK / took[0] / 1e6, size * (double)chunks * CHUNK / took[1] / 1e6);
  MPI_Finalize();
  return 0;
}
