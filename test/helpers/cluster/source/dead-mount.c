// Mounts a file system at argv[1] whose server never answers, says so on standard output, and takes it away when standard
// input ends. What waits in it then goes on with an error.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

int main(int argc, char **argv) {
  char options[128], byte;
  int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (argc != 2 || fd < 0) {
    fprintf(stderr, "/dev/fuse: %s\n", strerror(errno));
    return 1;
  }
  snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
  if (mount("dead", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
    fprintf(stderr, "mount: %s\n", strerror(errno));
    return 1;
  }
  puts("mounted");
  fflush(stdout);
  while (read(0, &byte, 1) > 0) {
  }
  close(fd);
  return umount2(argv[1], MNT_DETACH) < 0;
}
