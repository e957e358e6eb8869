package reservation

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestContainersHaveCoresOfTheirOwn: as long as there are enough, and of those that are free.
func TestContainersHaveCoresOfTheirOwn(t *testing.T) {
	l := Ledger(filepath.Join(t.TempDir(), "ledger"))
	all := []int{2, 3, 6, 7}
	one, release := l.cores(2, all)
	two, releaseTwo := l.cores(1, all)
	if !slices.Equal(one, []int{2, 3}) || !slices.Equal(two, []int{6}) {
		t.Errorf("%v and %v, expected 2, 3 and 6", one, two)
	}
	more, releaseMore := l.cores(3, all)
	if len(more) != 3 || !slices.Contains(more, 7) {
		t.Errorf("too few are free: %v", more)
	}
	releaseMore()
	release()
	if again, done := l.cores(3, all); !slices.Equal(again, []int{2, 3, 7}) {
		t.Errorf("after a release: %v, expected 2, 3 and 7", again)
	} else {
		done()
	}
	releaseTwo()
	if whole, done := l.cores(9, all); !slices.Equal(whole, all) {
		t.Errorf("more than there are: %v", whole)
	} else {
		done()
	}
	if left, _ := filepath.Glob(filepath.Join(string(l), "core-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if some, done := Ledger("/dev/null/ledger").cores(2, all); !slices.Equal(some, []int{2, 3}) {
		t.Errorf("without a ledger: %v", some)
	} else {
		done()
	}
}
