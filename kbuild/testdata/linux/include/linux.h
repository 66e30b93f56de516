int timer(int hz);
int sched(int hz);
