package mount

import (
	"testing"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
)

// TestGroupsInPrivateMounts: a private mount has one group, to which all files of the user belong. Else the
// kernel would refuse to write to those of a project's group.
func TestGroupsInPrivateMounts(t *testing.T) {
	const user, group, project, other = 1001, 1002, 2000, 3000
	private, host := &files{uid: user, gid: group}, &files{}
	for name, c := range map[string]struct {
		f         *files
		uid, want uint32
	}{
		"own file, private":     {private, user, group},
		"another's, private":    {private, other, project},
		"own file, on the host": {host, user, project},
		"root's, on the host":   {host, 0, project},
	} {
		if got := c.f.group(&calls.Attr{UID: c.uid, GID: project}); got != c.want {
			t.Errorf("%s: group %d, expected %d", name, got, c.want)
		}
	}
}
