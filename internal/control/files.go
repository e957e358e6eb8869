package control

import (
	"context"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/spec"

	"github.com/bee-hpc/bee/internal/control/inputs"
)

// UnnamedVolume is the directory on the submitting machine with the volume of a run that
// succeeded, and of which its outputs have named nothing.
func UnnamedVolume(runDir string) string { return retention.UnnamedVolume(runDir) }

// OutputLog is the file on the submitting machine with the output of an attempt that is over.
func OutputLog(runDir string, attempt int) string { return headlink.OutputLog(runDir, attempt) }

// NodeLog is the file on the submitting machine with the log of an attempt's node.
func NodeLog(runDir string, attempt, rank int) string { return headlink.NodeLog(runDir, attempt, rank) }

// NodeLogRank is the rank in whose log the words of a node are: those of one
// host write to that of its first.
func NodeLogRank(job *spec.Job, rank int) int { return rank - rank%job.NodesPerHost() }

// InputWarnings reports links below a job's inputs that stay links, though the job does not
// have what they lead to. own is as in Submission.
func InputWarnings(ctx context.Context, job *spec.Job, own string) []string {
	return inputs.Warnings(ctx, job, own)
}
