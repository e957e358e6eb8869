package hostdir

import (
	"slices"
	"testing"
)

func TestPointsBelow(t *testing.T) {
	const info = `36 35 98:0 /mnt1 /data rw,noatime master:1 - ext3 /dev/root rw,errors=continue
37 36 98:0 / /data/a\040b\134c ro,nosuid - tmpfs tmpfs rw
38 35 98:0 / /database rw - ext3 /dev/root ro
39 35 98:0 / / ro - ext3 /dev/root rw
broken
`
	for dir, want := range map[string][]Point{
		"/data":     {{"/data", false}, {`/data/a b\c`, true}},
		"/data/a b": nil,
		"/x":        nil,
	} {
		if got := pointsBelow(info, dir); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", dir, got, want)
		}
	}
	if got := pointsBelow(info, "/"); len(got) != 4 || !got[3].ReadOnly {
		t.Errorf("below the root there are %+v", got)
	}
}
