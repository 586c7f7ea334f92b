/* The addresses of a host: /etc/hosts, then DNS over UDP with the servers and the search list of /etc/resolv.conf. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include "names.h"

enum lookup { LOOKUP_FOUND, LOOKUP_NO_NAME, LOOKUP_FAILED };

/* Ends at the deadline, as with a server that does not answer. */
enum lookup look_up(struct slice name, int64_t deadline, struct addresses *found);

#endif
