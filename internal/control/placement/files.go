package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
)

// CheckpointFiles returns the files that the job's `checkpoint.paths` name, with their
// digests; without paths, all of them.
func CheckpointFiles(files map[string]string, job *spec.Job) map[string]string {
	if job.Volume.Kind == spec.VolumeBurst {
		if sum, is := files[plan.BurstFiles]; is {
			return map[string]string{plan.BurstFiles: sum}
		}
	}
	if len(job.Checkpoint.Paths) == 0 {
		return files
	}
	picked := map[string]string{}
	for name, sum := range files {
		inside := path.Join(job.Volume.Path, name)
		for _, pattern := range job.Checkpoint.Paths {
			if ok, err := path.Match(pattern, inside); err == nil && ok || strings.HasPrefix(inside, strings.TrimSuffix(pattern, "/")+"/") || inside == pattern {
				picked[name] = sum
			}
		}
	}
	return picked
}

// Fingerprint differs for files that differ.
func Fingerprint(files map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%q %s\n", name, files[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
