package history

import (
	"testing"

	"bisectd/blame"
)

func TestLookup(t *testing.T) {
	dir, ids := chain(3).repo(t)
	for rev, want := range map[string]string{"main": ids[2], "main~1": ids[1], ids[0]: ids[0], "c1": ids[1]} {
		c, err := Lookup(t.Context(), dir, rev)
		if err != nil || c.ID != want || c.Tree == "" || c.Subject == "" {
			t.Errorf("%s: %+v, %v; want %s", rev, c, err, want)
		}
	}
	for _, rev := range []string{"nothing", ""} {
		if _, err := Lookup(t.Context(), dir, rev); err == nil || blame.Of(err) != blame.User {
			t.Errorf("%q: error %v, want blame of the user", rev, err)
		}
	}
}
