package slurm

import (
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// TestOtherSlurms: clusters have other versions of Slurm than this machine.
func TestOtherSlurms(t *testing.T) {
	testkit.Long(t, "TestConformance")
	slurmfarm.WithOtherSlurms(t, "TestConformance", "TestWhatSitesDo", "TestJobWithoutARecord", "TestAJobWithoutALaunchSpecIsReleased",
		"TestAJobThatWaitsForItsControllerAlone", "TestAPartitionThatIsDown", "TestRefusals", "TestAStepOfAnEarlierStart", "TestAccountsHaveLimits")
}
