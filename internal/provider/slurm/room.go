package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// room is what a partition, or an allocation, offers.
type room struct {
	partition string
	up        bool
	alike     []alike
	limit     time.Duration // of a job; 0: none
	// narrower is what allows a job even less than the partition does, as people
	// say it: "QOS short".
	narrower string
	// yields means that jobs may have to make way for such that come first; grace is
	// how long after they were notified of it Slurm begins to end them.
	yields bool
	grace  time.Duration
	// granted is the job that is an allocation, and left what is left of its time.
	granted *job
	left    time.Duration
}

// giver is who says how long a job may take at most.
func (r room) giver() string {
	if r.narrower != "" {
		return r.narrower
	}
	return "partition " + r.partition
}

// alike are nodes of a partition that have the same.
type alike struct {
	nodes  int
	cores  int   // 0: unknown
	memory int64 // MiB; 0: unknown
}

// nodes counts those that have so many cores and so much memory.
func (r room) nodes(cores int, memory int64) (n int) {
	for _, a := range r.alike {
		if (a.cores == 0 || a.cores >= cores) && (a.memory == 0 || a.memory >= memory) {
			n += a.nodes
		}
	}
	return n
}

// most is the largest number of cores that a node has.
func (r room) most() (cores int) {
	for _, a := range r.alike {
		cores = max(cores, a.cores)
	}
	return cores
}

// takes reports whether jobs as long as the site's slot start there: Busy where
// that may change.
func (p *provider) takes(r room) error {
	switch {
	case !r.up:
		return &core.Error{
			Kind: core.Busy, Err: fmt.Errorf("partition %s is down", r.partition),
			Remedy: "Name another partition at the site, or wait until it is up (`sinfo`).",
		}
	case p.s.Job == "" && r.limit > 0 && p.s.Slot > r.limit:
		return &core.Error{
			Kind: core.Unsupported, Err: fmt.Errorf("an attempt of %s is longer than %s allows, %s", p.s.Slot, r.giver(), r.limit),
			Remedy: fmt.Sprintf("Lower the job's `time`, or the site's `slot`, to %s.", r.limit),
		}
	}
	return nil
}

// holds reports whether a partition has the nodes that a run asks for.
func (p *provider) holds(room room, r driver.Request) error {
	refuse := func(remedy, format string, a ...any) error {
		return &core.Error{Kind: core.Unsupported, Err: fmt.Errorf(format, a...), Remedy: remedy}
	}
	slots, memory := max(r.SlotsPerNode, p.s.Slots), cmp.Or(mebibytes(r.Memory), p.memory())
	all, wide, fit := room.nodes(0, 0), room.nodes(slots, 0), room.nodes(slots, memory)
	switch {
	case r.Nodes > all && p.s.Job != "":
		return refuse("Lower `nodes:`, or ask for a larger allocation.", "the job wants %d nodes, and allocation %s has %d", r.Nodes, p.s.Job, all)
	case r.Nodes > all:
		return refuse("Lower `nodes:`, or name a larger partition at the site.", "the job wants %d nodes, and partition %s has %d", r.Nodes, room.partition, all)
	case wide == 0:
		return refuse("Lower `cores:` or `ranks_per_node:`, or the site's `slots`.", "the job wants %d slots on each node, and the nodes of partition %s have %d cores", slots, room.partition, room.most())
	case r.Nodes > wide:
		return refuse("Lower `nodes:`, `cores:` or `ranks_per_node:`, or the site's `slots`.", "the job wants %d nodes with %d slots each, and partition %s has %d with so many cores", r.Nodes, slots, room.partition, wide)
	case r.Nodes > fit:
		return refuse("Lower `nodes:` or `memory:`, or `--mem` in the site's `slurm: {options: …}`.", "the job wants %d nodes with %d MiB of memory each, and partition %s has %d that do", r.Nodes, memory, room.partition, fit)
	}
	return nil
}

// fitting gives those rooms that take a run's jobs, if any does; else the reason
// of each. That any may come to do so is what the kind reports.
func fitting(rooms []room, does func(room) error) ([]room, error) {
	var (
		good  []room
		whys  []error
		first *core.Error
	)
	for _, r := range rooms {
		err := does(r)
		if err == nil {
			good = append(good, r)
			continue
		}
		whys = append(whys, err)
		if e, ok := errors.AsType[*core.Error](err); ok && (first == nil || e.Kind == core.Busy && first.Kind != core.Busy) {
			first = e
		}
	}
	switch {
	case len(good) > 0 || len(whys) == 0:
		return good, nil
	case len(whys) == 1 || first == nil:
		return nil, whys[0]
	}
	words := make([]string, len(whys))
	for i, err := range whys {
		words[i] = err.Error()
	}
	return nil, &core.Error{Kind: first.Kind, Err: errors.New(strings.Join(words, "; ")), Remedy: first.Remedy}
}

// option gives the value of an option of sbatch among the site's own, which is
// written in one word: --mem=4G.
func (p *provider) option(name string) string {
	for _, o := range slices.Backward(p.s.Options) {
		if value, ok := strings.CutPrefix(o, name+"="); ok {
			return value
		}
	}
	return ""
}

// mebibytes rounds up.
func mebibytes(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// memory is what the site's own options ask for on each node, in MiB; 0: nothing,
// or what only sbatch understands.
func (p *provider) memory() int64 {
	value := p.option("--mem")
	if value == "" {
		return 0
	}
	number, unit := value, int64(1)
	for letter, mebibytes := range map[string]int64{"M": 1, "G": 1 << 10, "T": 1 << 20} {
		if rest, ok := strings.CutSuffix(strings.ToUpper(value), letter); ok {
			number, unit = rest, mebibytes
		}
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return 0
	}
	return n * unit
}

// rooms asks for the site's partitions, the default one where none is named, or
// for the allocation, as they were at most so long ago.
func (p *provider) rooms(ctx context.Context, age time.Duration) ([]room, error) {
	if p.s.Job != "" {
		r, err := p.allocation(ctx)
		return []room{r}, err
	}
	// Exact: else nodes that differ are one group, with the least that any has.
	out, err := p.s.Queue.cachedCall(ctx, age, "sinfo", "--noheader", "--exact", "--format=%P|%a|%l|%D|%c|%m")
	if err != nil {
		return nil, err
	}
	list, err := parseRooms(out, p.partitions())
	if err != nil {
		return nil, &core.Error{
			Kind: core.Unsupported, Err: err,
			Remedy: "Name a partition of `sinfo` at the site: `slurm: {partition: …}`.",
		}
	}
	return list, nil
}

// partitions are those that sbatch is given, any of which may take the job; none:
// the default one.
func (p *provider) partitions() []string {
	names := p.s.Partition
	if own := p.option("--partition"); own != "" { // it comes later
		names = own
	}
	return slices.DeleteFunc(strings.Split(names, ","), func(s string) bool { return s == "" })
}

// parseRooms reads lines of sinfo: partition, availability, time limit, number
// of nodes, cores and memory of a node; one for each group of nodes that are alike.
func parseRooms(out string, partitions []string) ([]room, error) {
	var list []room
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 6 {
			return nil, fmt.Errorf("sinfo printed %q", line)
		}
		name, standard := strings.CutSuffix(f[0], "*")
		if len(partitions) > 0 && !slices.Contains(partitions, name) || len(partitions) == 0 && !standard {
			continue
		}
		nodes, err1 := strconv.Atoi(f[3])
		cores, err2 := strconv.Atoi(strings.TrimSuffix(f[4], "+"))
		memory, err3 := strconv.ParseInt(strings.TrimSuffix(f[5], "+"), 10, 64)
		limit, err4 := parseSpan(f[2])
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return nil, fmt.Errorf("sinfo printed %q: %w", line, err)
		}
		i := slices.IndexFunc(list, func(r room) bool { return r.partition == name })
		if i < 0 {
			i, list = len(list), append(list, room{partition: name})
		}
		list[i].up, list[i].limit = f[1] == "up", limit
		if nodes > 0 {
			list[i].alike = append(list[i].alike, alike{nodes, cores, memory})
		}
	}
	for _, name := range partitions {
		if !slices.ContainsFunc(list, func(r room) bool { return r.partition == name && len(r.alike) > 0 }) {
			return nil, fmt.Errorf("Slurm has no partition %q with nodes", name) //nolint:staticcheck // a name
		}
	}
	if len(list) == 0 || len(list[0].alike) == 0 {
		return nil, errors.New("Slurm has no default partition") //nolint:staticcheck // a name
	}
	return list, nil
}

// allocation is the room in a job of the user's.
func (p *provider) allocation(ctx context.Context) (room, error) {
	r := room{partition: "of job " + p.s.Job, up: true}
	j, err := p.s.Queue.job(ctx, p.s.Job)
	if err != nil {
		return r, err
	}
	if j == nil || j.state != "RUNNING" {
		state := "unknown to Slurm"
		if j != nil {
			state = strings.ToLower(j.state)
		}
		return r, &core.Error{Kind: core.Unsupported, Op: "use Slurm job", Object: p.s.Job, Err: errors.New("it is " + state), Remedy: "Ask for a new allocation with salloc."}
	}
	r.alike, r.granted = []alike{{nodes: j.nodes}}, j
	if !j.end.IsZero() {
		r.left = max(time.Until(j.end), 1) // an end that has passed is one
	}
	return r, nil
}
