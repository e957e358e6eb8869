package plan

import (
	"testing"
	"time"
)

// The user's time counts from when the head begins, whatever the controller's
// clock says; the site's deadline is by the site's.
func TestDeadlines(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		site time.Duration // from now; 0: none
		slot time.Duration
		want time.Duration // 0: none
	}{
		"none": {0, 0, 0}, "the user's": {0, time.Hour, time.Hour}, "the site's": {time.Minute, 0, time.Minute},
		"the site's comes first": {time.Minute, time.Hour, time.Minute}, "the user's comes first": {time.Hour, time.Minute, time.Minute},
	} {
		p := Plan{Slot: c.slot}
		if c.site > 0 {
			p.Deadline = now.Add(c.site)
		}
		p.Begin(now)
		if got := p.Deadline; got.IsZero() != (c.want == 0) || c.want > 0 && !got.Equal(now.Add(c.want)) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWherePathsOfAContainerAre(t *testing.T) {
	p := Plan{Volume: "/data/work", Binds: map[string]string{"/data": "0/data", "/data/a/b": "1/b", "/data/a": "2/a", "/etc/s.conf": "3/s.conf"}}
	for inside, want := range map[string][2]string{
		"/data/work": {"run/volume", ""}, "/data/work/x*": {"run/volume", "x*"}, "/data/worker": {"run/inputs/0/data", "worker"},
		"/data": {"run/inputs/0/data", ""}, "/data/": {"run/inputs/0/data", ""}, "/data/x/y": {"run/inputs/0/data", "x/y"},
		"/data/a/x": {"run/inputs/2/a", "x"}, "/data/a/b/x": {"run/inputs/1/b", "x"}, "/etc/s.conf": {"run/inputs/3/s.conf", ""}, "/database": {},
	} {
		if root, rel := p.OnHost("run", inside); root != want[0] || rel != want[1] {
			t.Errorf("%s: %q, %q", inside, root, rel)
		}
	}
}
