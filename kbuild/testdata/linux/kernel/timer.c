#include <linux.h>

int timer(int hz)
{
	return 1000 / hz;
}
