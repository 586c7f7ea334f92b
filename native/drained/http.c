#include "http.h"

/* For everything that breaks the rules of HTTP, as src/fleet/drained/ask-fleet.ts says it. */
static const char NOT_HTTP[] = "the answer is not HTTP/1.1";
static const char TOO_LARGE[] = "the answer is larger than 1048576 bytes";
static const char CUT_OFF[] = "the connection ended within the answer";

static void fail(struct response *response, const char *fault) {
  response->state = AT_FAULT;
  response->fault = fault;
}

void response_begin(struct response *response, char *body) {
  response->state = AT_STATUS_LINE;
  response->status = 0;
  response->fault = NULL;
  response->has_length = false;
  response->is_chunked = false;
  response->left = 0;
  response->head_length = 0;
  response->line_length = 0;
  response->body_length = 0;
  response->body = body;
}

/* HTTP/1.1 200 OK; the reason may be missing. */
static void take_status(struct response *response, struct slice line) {
  bool is_http = starts_with(line, "HTTP/1.1 ") || starts_with(line, "HTTP/1.0 ");
  uint64_t status;
  if (!is_http || line.length < 12 || (line.length > 12 && line.at[12] != ' ') ||
      !read_number((struct slice){line.at + 9, 3}, 999, &status) || status < 100)
    return fail(response, NOT_HTTP);
  response->status = (int)status;
  response->state = AT_HEADER;
}

static bool is_name(struct slice name) {
  for (size_t at = 0; at < name.length; at++) {
    char letter = lower(name.at[at]);
    bool is_letter = (letter >= 'a' && letter <= 'z') || is_digit(letter);
    if (!is_letter && !has_byte(slice_of("!#$%&'*+-.^_`|~"), letter)) return false;
  }
  return name.length > 0;
}

static bool is_value(struct slice value) {
  for (size_t at = 0; at < value.length; at++)
    if (((uint8_t)value.at[at] < 0x20 && value.at[at] != '\t') || value.at[at] == 0x7f) return false;
  return true;
}

/* Lengths that contradict each other let two programs see two answers in the same bytes (RFC 9112, 6.3): they are refused. */
static void take_header(struct response *response, struct slice line) {
  struct slice name = {line.at, 0};
  while (name.length < line.length && line.at[name.length] != ':') name.length++;
  if (name.length == line.length) return fail(response, NOT_HTTP);
  struct slice value = trimmed((struct slice){name.at + name.length + 1, line.length - name.length - 1});
  if (!is_name(name) || !is_value(value)) return fail(response, NOT_HTTP);
  if (response->state == AT_TRAILER) return;
  bool is_length = is_same_word(name, "content-length");
  bool is_coding = is_same_word(name, "transfer-encoding");
  if (!is_length && !is_coding) return;
  if (response->has_length || response->is_chunked) return fail(response, NOT_HTTP);
  if (is_length) {
    response->has_length = true;
    if (!read_number(value, UINT64_C(1) << 53, &response->left)) fail(response, NOT_HTTP);
  } else {
    response->is_chunked = true;
    if (!is_same_word(value, "chunked")) fail(response, NOT_HTTP);
  }
}

static void take_end_of_head(struct response *response) {
  int status = response->status;
  bool is_interim = status < 200;
  bool has_body = !is_interim && status != 204 && status != 304;
  if (status == 101) return fail(response, NOT_HTTP);
  if (is_interim) {
    response->has_length = response->is_chunked = false;
    response->left = 0;
    response->state = AT_STATUS_LINE;
  } else if (!has_body) response->state = AT_DONE;
  else if (response->is_chunked) response->state = AT_CHUNK_SIZE;
  else if (response->has_length && response->left == 0) response->state = AT_DONE;
  else response->state = AT_BODY;
}

/* Hexadecimal digits, and extensions that mean nothing here. */
static void take_chunk_size(struct response *response, struct slice line) {
  static const char DIGITS[] = "0123456789abcdef";
  uint64_t size = 0;
  size_t at = 0;
  for (; at < line.length; at++) {
    uint64_t digit = 0;
    while (digit < 16 && DIGITS[digit] != lower(line.at[at])) digit++;
    if (digit == 16) break;
    // The next digit could not count.
    if (size >> 56 != 0) return fail(response, NOT_HTTP);
    size = size * 16 + digit;
  }
  struct slice rest = trimmed((struct slice){line.at + at, line.length - at});
  if (at == 0 || (rest.length > 0 && rest.at[0] != ';') || !is_value(rest))
    return fail(response, NOT_HTTP);
  response->left = size;
  response->state = size == 0 ? AT_TRAILER : AT_CHUNK;
}

static void take_line_of(struct response *response, struct slice line) {
  switch (response->state) {
    case AT_STATUS_LINE: return take_status(response, line);
    case AT_HEADER:
      if (line.length == 0) return take_end_of_head(response);
      return take_header(response, line);
    case AT_CHUNK_SIZE: return take_chunk_size(response, line);
    case AT_CHUNK_END:
      if (line.length > 0) return fail(response, NOT_HTTP);
      response->state = AT_CHUNK_SIZE;
      return;
    default:
      if (line.length > 0) return take_header(response, line);
      response->state = AT_DONE;
  }
}

/* A byte of a line, which ends with CR and LF. */
static void take_in_line(struct response *response, char byte) {
  if (response->head_length == MOST_HEAD) return fail(response, NOT_HTTP);
  response->head_length++;
  // Each line is a part of the head, so it fits.
  response->line[response->line_length++] = byte;
  if (byte != '\n') return;
  if (response->line_length < 2 || response->line[response->line_length - 2] != '\r')
    return fail(response, NOT_HTTP);
  struct slice line = {response->line, response->line_length - 2};
  response->line_length = 0;
  take_line_of(response, line);
}

static size_t take_in_body(struct response *response, const char *bytes, size_t length) {
  bool is_counted = response->has_length || response->is_chunked;
  size_t taken = is_counted && response->left < length ? (size_t)response->left : length;
  if (taken > MOST_BODY - response->body_length) {
    fail(response, TOO_LARGE);
    return length;
  }
  __builtin_memcpy(response->body + response->body_length, bytes, taken);
  response->body_length += taken;
  if (!is_counted) return taken;
  response->left -= taken;
  if (response->left == 0) response->state = response->is_chunked ? AT_CHUNK_END : AT_DONE;
  return taken;
}

void response_take(struct response *response, const char *bytes, size_t length) {
  size_t at = 0;
  while (at < length && response->state != AT_DONE && response->state != AT_FAULT) {
    if (response->state == AT_BODY || response->state == AT_CHUNK) at += take_in_body(response, bytes + at, length - at);
    else take_in_line(response, bytes[at++]);
  }
}

bool response_has_begun(const struct response *response) {
  return response->status >= 200 && response->state != AT_HEADER;
}

void response_end(struct response *response) {
  if (response->state == AT_DONE || response->state == AT_FAULT) return;
  if (response->state == AT_BODY && !response->has_length) response->state = AT_DONE;
  else fail(response, response_has_begun(response) ? CUT_OFF : "socket hang up");
}
