package slurm

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// How Slurm finds the jobs that have to make way for others (PreemptType in slurm.conf(5)).
const (
	preemptByPartition = "preempt/partition_prio"
	preemptByQOS       = "preempt/qos"
)

// grace reports whether jobs of a QOS may be ended in a partition, for jobs that come first,
// and how long after they were notified of it Slurm begins to end them. set is Slurm's
// configuration, and partitions are the settings of each.
func grace(set map[string]string, partitions map[string]map[string]string, partition string, levels []qos, named string) (yields bool, last time.Duration) {
	switch set["PreemptType"] {
	case preemptByPartition:
		mine := partitions[partition]
		if !endsJobs(mine["PreemptMode"]) {
			return false, 0
		}
		for _, other := range partitions {
			yields = yields || number(other["PriorityTier"]) > number(mine["PriorityTier"])
		}
		return yields, time.Duration(number(mine["GraceTime"])) * time.Second
	case preemptByQOS:
		at := slices.IndexFunc(levels, func(q qos) bool { return q.name == named })
		if at < 0 {
			return false, 0
		}
		mode := levels[at].preemptMode
		yields = within(mode) || within(set["PreemptMode"])
		for _, q := range levels {
			yields = yields || slices.Contains(strings.Split(q.preempts, ","), named)
		}
		if !yields {
			return false, 0
		}
		if mode == "cluster" {
			mode = set["PreemptMode"]
		}
		last, _ = parseSpan(levels[at].grace)
		return endsJobs(mode), last
	}
	return false, 0
}

// endsJobs reports a mode of preemption in which jobs are ended. What is put back into the
// queue counts too, as ours are not.
func endsJobs(mode string) bool {
	mode = strings.ToUpper(mode)
	return strings.Contains(mode, "CANCEL") || strings.Contains(mode, "REQUEUE")
}

// within reports a mode of preemption in which jobs make way for those of higher priority of
// their own QOS, too.
func within(mode string) bool { return strings.Contains(strings.ToUpper(mode), "WITHIN") }

// number is one that Slurm reports; else 0.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
