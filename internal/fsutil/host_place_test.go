package fsutil

import "testing"

// TestOutsideID: the id of a user outside of a namespace, in which emulated hosts are.
func TestOutsideID(t *testing.T) {
	for name, c := range map[string]struct {
		id     int
		uidMap string
		want   int
	}{
		"outside of any":       {1001, "         0          0 4294967295\n", 1001},
		"on an emulated host":  {0, "         0       1001          1\n", 1001},
		"root's emulated host": {0, "         0          0 4294967295\n", 0},
		"of several ranges":    {7, "0 1001 1\n1 100000 65536\n", 100006},
		"of none of them":      {9, "0 1001 1\n", 9},
		"unknown":              {9, "", 9},
	} {
		if got := OutsideID(c.id, c.uidMap); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
