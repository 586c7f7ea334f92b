/* Files, waits and sockets. Each wait has an end, and ends the process at SIGTERM, SIGINT and SIGHUP. */
#ifndef SYSTEM_H
#define SYSTEM_H

#include "address.h"
#include "kernel.h"

#define MILLISECOND INT64_C(1000000)
#define SECOND INT64_C(1000000000)

/* Bytes of a file, at most so many; a negative number of errno. */
long read_file(const char *path, char *bytes, size_t most);
/* ECONNREFUSED; a number where it is not known here. */
void put_error_name(struct sink *sink, long error);
/* no such file or directory */
void put_error_text(struct sink *sink, long error);

/* Text on its way to a descriptor. */
struct output {
  struct sink sink;
  int descriptor;
  size_t length;
  char bytes[4096];
};
struct output output_to(int descriptor);
/* Without the blanks at its end where they are still here, with the end of a line. */
void end_output(struct output *output);

/* From now on signals wait until something waits. */
void catch_signals(void);
/* Waits until one of `events` of poll(2) is there. false: it was not until `deadline`, in nanoseconds of the clock. */
bool wait_for(int descriptor, short events, int64_t deadline);
void wait_until(int64_t deadline);

/* A socket connected to an address, or on its way; a negative number of errno. `type`: SOCK_STREAM or SOCK_DGRAM. */
int open_socket(struct address address, uint16_t port, int type);
/* 0 when it is connected; a negative number of errno, of ETIMEDOUT at the deadline. */
int finish_connecting(int socket, int64_t deadline);
/* Has TCP ask whether the other machine is still there, where nothing was said for 5 s. */
void keep_alive(int socket);
/* Bytes that were sent or received, 0 at the end; a negative number of errno, of ETIMEDOUT at the deadline. */
long send_some(int socket, const void *bytes, size_t length, int64_t deadline);
long receive_some(int socket, void *bytes, size_t most, int64_t deadline);
void close_descriptor(int descriptor);

#endif
