package slurm

import (
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// completing is the state of a job whose nodes are tidied up: Slurm reports how it ended
// only after that.
const completing = "COMPLETING"

// over reports whether a job has ended; what is still tidied up on its nodes has
// not, nor has a job in a state that another version of Slurm may have.
func (j *job) over() bool {
	switch j.state {
	case "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT":
		return true
	}
	return false
}

// gone means that the job's nodes are not to be had any more, or will not be
// in a moment. Slurm forgets a job some minutes after its end: then it is nil.
func (j *job) gone() bool { return j == nil || j.over() || j.state == completing }

// queued means that it waits for nodes, however it came to that, or is held.
func (j *job) queued() bool {
	return j.state == "PENDING" || strings.HasPrefix(j.state, "REQUEUE") || j.state == "SPECIAL_EXIT" || j.state == "RESV_DEL_HOLD" ||
		j.state == "EXPEDITING" // as Slurm 25.11 calls one that comes first when its node has failed
}

// again reports, of a job that had its nodes, that it has them no more and waits
// for others.
func (j *job) again() bool { return j.queued() || j.state == "CONFIGURING" }

// still means that Slurm has stopped the job's processes, and will have them continue.
func (j *job) still() bool { return j.state == "SUSPENDED" || j.state == "STOPPED" }

// standing says so in plain words.
func (j *job) standing() string {
	return "Slurm has suspended the job: its processes stand still, and continue when Slurm resumes it (`scontrol resume`, or the end of jobs that come first)"
}

// hostsEnd returns why the job's nodes are gone, where its state shows that.
func (j *job) hostsEnd() core.HostsEnd {
	switch {
	case j == nil:
	case j.state == "PREEMPTED":
		return core.HostsReclaimed
	case j.state == "CANCELLED":
		return core.HostsEnded
	}
	return ""
}

// ending says in plain words how a job ended.
func (j *job) ending() string {
	if j == nil {
		return "Slurm knows the job no more"
	}
	words := map[string]string{
		"CANCELLED":     "the job was cancelled, as by `scancel`",
		"COMPLETED":     "the job has ended",
		completing:      "the job is ending",
		"FAILED":        "the job has failed",
		"TIMEOUT":       "the job's time was over",
		"DEADLINE":      "the job's deadline was over",
		"NODE_FAIL":     "a node of the job has failed",
		"BOOT_FAIL":     "a node of the job did not boot",
		"PREEMPTED":     "the job had to make way for one of higher priority",
		"OUT_OF_MEMORY": "the job used more memory than it was given",
		"REVOKED":       "the job was revoked",
	}[j.state]
	if words == "" {
		words = "the job is " + strings.ToLower(j.state)
	}
	return words
}

// waiting says in plain words what a pending job waits for (the reasons of
// squeue(1)).
func (j *job) waiting() string {
	exact := map[string]string{
		"None":                        "Slurm has not looked at it yet",
		"Resources":                   "it waits for nodes to become free",
		"Priority":                    "jobs of higher priority are before it",
		"Dependency":                  "it waits for another job to end",
		"BeginTime":                   "its start time has not come",
		"JobHeldUser":                 "it was held by its user (`scontrol release`)",
		"JobHeldAdmin":                "it was held by the site's staff",
		"Licenses":                    "it waits for a licence",
		"Reservation":                 "it waits for its reservation to begin",
		"PartitionDown":               "its partition is down",
		"PartitionInactive":           "its partition is inactive",
		"PartitionNodeLimit":          "it asks for more nodes than the partition allows",
		"PartitionTimeLimit":          "it asks for more time than the partition allows",
		"NodeDown":                    "a node that it needs is down",
		"BadConstraints":              "no node meets its constraints",
		"InvalidAccount":              "its account is not valid",
		"InvalidQOS":                  "its QOS is not valid",
		"AccountNotAllowed":           "its account may not use the partition",
		"QOSNotAllowed":               "its QOS may not use the partition",
		"ReservationDeleted":          "its reservation was deleted",
		"Cleaning":                    "it is being put back into the queue",
		"launch failed requeued held": "it could not be started and is held",
	}
	if words, ok := exact[j.reason]; ok {
		return words
	}
	switch {
	case strings.Contains(strings.ToLower(j.reason), "maint"): // Slurm says so of any reservation
		return "nodes are reserved, mostly for maintenance, before it could end: a shorter `time`, or a `min_slot`, may let it start before"
	case strings.HasPrefix(j.reason, "ReqNodeNotAvail"), strings.HasPrefix(j.reason, "Nodes required for job are DOWN"):
		return "nodes that it needs are down, drained or reserved, maybe for maintenance"
	case j.oversized() && strings.Contains(j.reason, "Wall"):
		return "it asks for more time than its account or QOS allows a job: lower the job's `time`, or the site's `slot` (" + j.reason + ")"
	case j.oversized() && strings.HasSuffix(j.reason, unsatisfied):
		return "it asks for less than its QOS demands of a job (" + j.reason + ")"
	case j.oversized():
		return "it asks for more than its account or QOS allows a job (" + j.reason + ")"
	case j.limited():
		return "a limit of its account or QOS is reached (" + j.reason + ")"
	}
	return j.reason
}

// hopeless reports reasons that do not pass by waiting.
func (j *job) hopeless() bool {
	switch j.reason {
	case "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints", "InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed", "ReservationDeleted", "DependencyNeverSatisfied":
		return true
	}
	return j.oversized()
}

// limited means that it waits for other jobs of its account or QOS.
func (j *job) limited() bool {
	bounded := strings.HasPrefix(j.reason, "QOS") || strings.HasPrefix(j.reason, "Assoc") || strings.HasPrefix(j.reason, "Max")
	return bounded && !j.hopeless()
}

// unsatisfied ends the reasons of jobs that ask for too little.
const unsatisfied = "NotSatisfied"

// oversized means that the job by itself, and not with others, asks for more, or less,
// than its account or QOS allows.
func (j *job) oversized() bool {
	if !strings.HasPrefix(j.reason, "Assoc") && !strings.HasPrefix(j.reason, "QOS") {
		return false
	}
	return strings.Contains(j.reason, "PerJob") || strings.Contains(j.reason, "PerNode") || strings.HasSuffix(j.reason, unsatisfied)
}
