package driver

import (
	"fmt"
	"regexp"

	"github.com/bee-hpc/bee/internal/core"
)

// SavedMachine is the file that describes a saved machine, in its directory, and
// MostSavedMachine its largest size in bytes.
const (
	SavedMachine     = "machine.json"
	MostSavedMachine = 1 << 20
)

// MostDisks is how many disks a saved machine has at most.
const MostDisks = 64

// serialForm is what serial numbers of disks are made of: they become names of files where
// a machine is restored, and another site has written them.
var serialForm = regexp.MustCompile(`^bee-[a-z]{1,12}[0-9]{0,3}$`)

// CheckSavedDisks refuses serial numbers of disks that no saved machine has, with an error
// of kind Invalid.
func CheckSavedDisks(serials []string) error {
	const remedy = "It is not one that bee has written: do not use it."
	if len(serials) > MostDisks {
		return &core.Error{Kind: core.Invalid, Err: fmt.Errorf("its record has %d disks", len(serials)), Remedy: remedy}
	}
	seen := map[string]bool{}
	for _, s := range serials {
		if !serialForm.MatchString(s) || seen[s] {
			return &core.Error{Kind: core.Invalid, Err: fmt.Errorf("its record has a disk %.100q", s), Remedy: remedy}
		}
		seen[s] = true
	}
	return nil
}
