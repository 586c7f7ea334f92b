/* An answer of HTTP/1.1 (RFC 9112), piece by piece as it arrives, within fixed bounds. Pure. */
#ifndef HTTP_H
#define HTTP_H

#include "text.h"

/* Bytes of an answer's body, and of its head with its trailers, as slicewire's other clients have them. */
enum { MOST_BODY = 1 << 20, MOST_HEAD = 16 << 10 };

enum response_state {
  AT_STATUS_LINE,
  AT_HEADER,
  AT_BODY,
  AT_CHUNK_SIZE,
  AT_CHUNK,
  AT_CHUNK_END,
  AT_TRAILER,
  AT_DONE,
  AT_FAULT,
};

struct response {
  enum response_state state;
  int status;
  /* Why it is no answer; NULL unless the state is AT_FAULT. */
  const char *fault;
  bool has_length;
  bool is_chunked;
  /* Bytes of the body, or of the chunk, that are still to come. */
  uint64_t left;
  /* Bytes of heads, sizes of chunks and trailers so far. */
  size_t head_length;
  size_t line_length;
  char line[MOST_HEAD];
  size_t body_length;
  char *body;
};

/* `body` has room for MOST_BODY bytes. */
void response_begin(struct response *response, char *body);
void response_take(struct response *response, const char *bytes, size_t length);
/* Its head is complete. */
bool response_has_begun(const struct response *response);
/* The connection ended. The state is AT_DONE or AT_FAULT then. */
void response_end(struct response *response);

#endif
