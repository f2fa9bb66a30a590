/*
 * Open /dev/kvm.
 * A virtual machine runs code that no filter of the host sees.
 */
#include "tests/escape/escape.h"

ESCAPE(dev_kvm)
{
	return tried_open("/dev/kvm", O_RDWR);
}
