#include <linux.h>

int sched(int hz)
{
	return 2000 / hz;
}
