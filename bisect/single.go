package bisect

import (
	"context"
	"strings"

	"bisectd/blame"
)

// Test places one commit between the ends of the range, of which it need not
// be a part, by the first of the signals that Run would walk on. No fresh
// boots confirm it. Ends that do not differ are blame.User: there is nothing
// to test for.
func (e *Engine) Test(ctx context.Context, c Commit) (Test, error) {
	e.begin()
	s, guides, err := e.calibrate(ctx)
	if err != nil {
		return Test{}, err
	}
	if len(guides) == 0 {
		why := e.unseparated(s).Reasons
		return Test{}, blame.Errorf(blame.User, "good and bad do not differ: %s", strings.Join(why, "; "))
	}
	guide := guides[0]
	if err := e.anchor(ctx, s, guide); err != nil {
		return Test{}, err
	}
	if why := e.Judge.Hopeless(guide, s.ends.old, s.ends.new); why != "" {
		return Test{}, blame.Errorf(blame.User, "%s", why)
	}
	e.Progress.tell(Update{Phase: Walking, Commit: c, VCPUs: e.vcpus, Left: 1, Steps: 1})
	t, _, err := e.test(ctx, s, guide, c)
	return t.Test, err
}
