/*
 * What slicewire-drained reads from others, mutated: answers over HTTP, JSON, messages of DNS, files of a container, flags. Compiled with
 * a C library and sanitizers. Arguments: the number of rounds, a seed, and files to begin with.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../../native/drained/answer.h"
#include "../../../../native/drained/http.h"
#include "../../../../native/drained/question.h"

enum { MOST_INPUT = 16 << 10 };

static uint64_t state;

static uint32_t random_below(uint32_t bound) {
  // xorshift64*
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (uint32_t)((state * UINT64_C(2685821657736338717)) >> 32) % bound;
}

static size_t written;

static void count(struct sink *sink, const char *bytes, size_t length) {
  (void)sink;
  for (size_t at = 0; at < length; at++) written += (uint8_t)bytes[at];
}

static size_t mutate(char *bytes, size_t length) {
  static const char *const PARTS[] = {"\r\n", "\"", "\\u", "\\ud83d\\ude00", "{", "]", ",", "chunked", "Content-Length: 3\r\n", "0\r\n\r\n", "\xc0\x0c", "::", "9999999999999999999", "HTTP/1.1 ", "e9", "\xf0\x9f"};
  for (uint32_t left = 1 + random_below(6); left > 0; left--) {
    size_t at = length == 0 ? 0 : random_below((uint32_t)length);
    switch (random_below(4)) {
      case 0:
        if (length > 0) bytes[at] = (char)random_below(256);
        break;
      case 1: {
        size_t cut = length == 0 ? 0 : random_below((uint32_t)(length - at)) % 32;
        memmove(bytes + at, bytes + at + cut, length - at - cut);
        length -= cut;
        break;
      }
      case 2: {
        const char *part = PARTS[random_below(sizeof PARTS / sizeof *PARTS)];
        size_t size = strlen(part);
        if (length + size > MOST_INPUT) break;
        memmove(bytes + at + size, bytes + at, length - at);
        memcpy(bytes + at, part, size);
        length += size;
        break;
      }
      default:
        if (random_below(4) == 0) length = at;
    }
  }
  return length;
}

/* In memory of exactly this size, so that a read past its end is seen. */
static char *exactly(const char *bytes, size_t length) {
  char *copy = malloc(length);
  if (copy == NULL && length > 0) abort();
  memcpy(copy, bytes, length);
  return copy;
}

static void read_json(struct slice text) {
  struct sink sink = {count};
  struct json json = json_read(text);
  struct json message = problem_message(json);
  if (message.kind == JSON_STRING) put_string(&sink, message, false);
  if (!answer_has_form(json)) return;
  put_answer_text(&sink, json, random_below(700000));
  put_answer_json(&sink, json, random_below(700000));
}

static void read_http(struct slice text) {
  static struct response response;
  static char body[MOST_BODY];
  response_begin(&response, body);
  for (size_t at = 0; at < text.length;) {
    size_t length = 1 + random_below(random_below(2) == 0 ? 4 : 600);
    if (length > text.length - at) length = text.length - at;
    response_take(&response, text.at + at, length);
    at += length;
  }
  response_end(&response);
  if (response.state != AT_DONE && response.state != AT_FAULT) abort();
  if (response.state == AT_FAULT) return;
  char *copy = exactly(response.body, response.body_length);
  read_json((struct slice){copy, response.body_length});
  free(copy);
}

static void read_dns_message(struct slice text) {
  static const char *const NAMES[] = {"slicewire-fleet.kube-system", "a", "fleet.", "", "..", "a..b"};
  uint8_t query[MOST_MESSAGE];
  struct addresses found = {0};
  size_t length = write_query(slice_of(NAMES[random_below(6)]), random_below(2) == 0 ? RECORD_A : RECORD_AAAA, 7, query);
  if (length == 0) return;
  // The question itself, and what was mutated after it.
  size_t size = length + (text.length < 400 ? text.length : 400);
  char *message = malloc(size);
  if (message == NULL) abort();
  memcpy(message, query, length);
  memcpy(message + length, text.at, size - length);
  message[2] = (char)(0x80 | random_below(4));
  message[7] = (char)random_below(12);
  for (int which = 0; which < 3; which++) {
    read_dns((const uint8_t *)message, size, query, length, &found);
    read_dns((const uint8_t *)message, random_below((uint32_t)size), query, length, &found);
    message[random_below((uint32_t)size)] ^= (char)(1 << random_below(8));
  }
  free(message);
}

static void read_small(struct slice text) {
  struct sink sink = {count};
  struct addresses found = {0};
  struct resolver resolver = read_resolver(text);
  if (resolver.servers == 0 || resolver.servers > MOST_SERVERS || resolver.searched > MOST_SEARCHED) abort();
  for (size_t at = 0; at < resolver.searched; at++) put_slice(&sink, resolver.search[at]);
  find_in_hosts(text, slice_of("slicewire-fleet"), &found);
  struct slice line;
  struct fleet fleet;
  struct address address;
  while (take_line(&text, &line)) {
    if (read_fleet(line, &fleet)) put_slice(&sink, fleet.shown);
    int64_t timeout = read_timeout(line);
    if (timeout == 0 || timeout > INT64_C(600000000000)) abort();
    if (read_address(line, random_below(2) == 0, &address)) put_address(&sink, address);
    if (is_pod(line)) put_encoded(&sink, line);
  }
}

int main(int arguments, char **argument) {
  if (arguments < 4) return 2;
  state = strtoull(argument[2], NULL, 10) | 1;
  for (long left = strtol(argument[1], NULL, 10); left > 0; left--) {
    static char bytes[MOST_INPUT];
    FILE *file = fopen(argument[3 + random_below((uint32_t)arguments - 3)], "rb");
    if (file == NULL) return 2;
    size_t length = mutate(bytes, fread(bytes, 1, sizeof bytes - 64, file));
    fclose(file);
    char *copy = exactly(bytes, length);
    struct slice text = {copy, length};
    read_http(text);
    read_json(text);
    read_dns_message(text);
    read_small(text);
    free(copy);
  }
  printf("%zu\n", written);
  return 0;
}
