/*
 * Bring the loopback of its own namespace up.
 * Then listen and be listened to by other chambers of that namespace.
 */
#include "tests/escape/escape.h"

#include <net/if.h>
#include <sys/ioctl.h>

ESCAPE(loopback_up)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	return fd < 0 ? errno : tried(ioctl(fd, SIOCSIFFLAGS, &r));
}
