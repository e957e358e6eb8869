package e2e

import (
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// TestRunsWithOtherSlurms: clusters have other versions of Slurm than this machine.
func TestRunsWithOtherSlurms(t *testing.T) {
	testkit.Long(t, "TestRunOnASlurmClusterBehindItsLoginNode")
	slurmfarm.WithOtherSlurms(t, "TestRunOnASlurmClusterBehindItsLoginNode", "TestOnTheLoginNodeAndInAnAllocation", "TestAllocationsOfOtherKinds",
		"TestASlurmJobNeedsNobody", "TestASlurmSlotEndsWithNobodyThere", "TestAPreemptedSlurmJobGoesOnElsewhere", "TestACancelledSlurmJobFailsTheRun",
		"TestARequeuedSlurmJobIsNotStartedAgain", "TestASuspendedSlurmJobIsNoLostOne", "TestADrainedNodeIsWaitedFor", "TestALostSlurmNodeMovesTheRun",
		"TestAShortJobIsBackfilled", "TestPacksAreFewJobs", "TestSlurmsOwnSignal")
}
