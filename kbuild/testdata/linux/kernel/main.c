#include <linux.h>

int start(void)
{
	return timer(250) + sched(250);
}
