// Package record keeps what a study measures in a directory: plan.json, all that was
// resolved before the first measurement, and results.jsonl, one line a measurement. It
// starts nothing, and knows neither study files nor verdicts.
package record

import (
	"slices"
	"time"
)

// Schema is the version of both files. Older versions are read for ever.
const Schema = 1

// Plan is a study as it was resolved for one series of measurements.
type Plan struct {
	Schema int    `json:"schema"`
	Study  string `json:"study"`
	Title  string `json:"title,omitempty"`
	// File is the text of the study file, and Dir the directory at which its paths start.
	File string `json:"file"`
	Dir  string `json:"dir"`
	// Site is the site of environments that name none; empty: the user's first. Mapped are sites
	// in place of those that the study names.
	Site   string            `json:"site,omitempty"`
	Mapped map[string]string `json:"mapped,omitempty"`
	// Size is the name of a size, or empty.
	Size string `json:"size,omitempty"`
	// Seed sets the order of environments.
	Seed uint64 `json:"seed"`
	// Method is robust, beserra2016 or published.
	Method string `json:"method"`
	// Reuse is block where the points of a block share containers, else empty.
	Reuse string `json:"reuse,omitempty"`
	// Summary is the figure that a paper prints, for published.
	Summary string `json:"summary,omitempty"`
	// Margin is a fraction, such as 0.05.
	Margin float64 `json:"margin"`
	// Least and Most are numbers of counted blocks.
	Least int `json:"least_blocks"`
	Most  int `json:"most_blocks"`
	// BudgetSeconds bounds the time of measurements; 0: no bound.
	BudgetSeconds float64 `json:"budget_seconds,omitempty"`
	Baseline      string  `json:"baseline"`
	// Replaced is the baseline of the study, where it does not work here and Baseline is another.
	Replaced     string        `json:"replaced_baseline,omitempty"`
	Environments []Environment `json:"environments"`
	Points       []Point       `json:"points"`
	Metrics      []Metric      `json:"metrics"`
	// StandIn names what was measured in place of what the paper measured, or is empty.
	StandIn string `json:"stand_in,omitempty"`
	// Sources are programs that were built from a user's sources.
	Sources []Source `json:"sources,omitempty"`
	// Scales are comparisons along a variable.
	Scales []Scale `json:"scales,omitempty"`
	// Claims are statements of a paper to judge.
	Claims []Claim `json:"claims,omitempty"`
	// Jobs is the SHA-256 digest of all jobs, in hex.
	Jobs    string    `json:"jobs,omitempty"`
	Machine Machine   `json:"machine"`
	Created time.Time `json:"created"`
	// Busy: other processes used the processors when measuring began or continued, in spite of a wait for a quiet machine.
	Busy bool `json:"busy,omitempty"`
	// Command repeats the series.
	Command string `json:"command,omitempty"`
	// ComparedWith is a directory of former results that these are compared with, or empty.
	ComparedWith string `json:"compared_with,omitempty"`
}

// Measured are the environments of a point that are not left out.
func (p *Plan) Measured(at Point) (names []string) {
	for _, e := range p.Environments {
		if e.Dropped == "" && slices.Contains(at.Environments, e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// Starts returns how many containers or guests a block starts in an environment.
func (p *Plan) Starts(e *Environment) int {
	n := e.Containers
	for _, point := range p.Points {
		if e.Containers == 0 && slices.Contains(point.Environments, e.Name) {
			n++
		}
	}
	switch {
	case e.Dropped != "":
		return 0
	case e.Name == p.Baseline: // A/A
		return 2 * n
	}
	return n
}

// Source is a program that was built from a user's sources.
type Source struct {
	Name string `json:"name"`
	// From is a directory or a URL.
	From string `json:"from"`
	// SHA256 is the digest of the archive, or of the tree's names, modes and contents.
	SHA256 string `json:"sha256"`
	// Commit is that of the directory, if it has one. It says nothing of later changes.
	Commit string `json:"commit,omitempty"`
}

// Scale compares the points of a variable with those of one of its values.
type Scale struct {
	Variable string      `json:"variable"`
	Against  string      `json:"against"`
	Points   []PointPair `json:"points"`
}

// Environment is a way to run the job.
type Environment struct {
	Name string `json:"name"`
	// Image is the id of the resolved image, if there is one.
	Image string `json:"image,omitempty"`
	// Dropped is why the environment is not measured here, and Remedy what would help.
	Dropped string `json:"dropped,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Named: the user has asked for it by name, so that a gate does not pass without it.
	Named bool `json:"named,omitempty"`
	// Emulated: its processor is emulated, so that no claim is judged by it.
	Emulated bool `json:"emulated,omitempty"`
	// HostPrograms: it runs programs that the host has installed, in place of the image's.
	HostPrograms bool `json:"host_programs,omitempty"`
	// OtherBinaries: the study wants to compare other programs.
	OtherBinaries bool `json:"other_binaries,omitempty"`
	// TrialSeconds is the time in which the command true was started and ended in it; 0: not known.
	TrialSeconds float64 `json:"trial_seconds,omitempty"`
	// Untested: the authors of the study have never measured it.
	Untested bool `json:"untested,omitempty"`
	// Untried is what the driver of its site was never run with, such as "a real VirtualBox"; "": it was.
	Untried string `json:"untried,omitempty"`
	// Site is where it is measured, if that has a price: HourPrice for all hosts of the largest point,
	// in Currency. LeastBilledSeconds is how long a host costs at least.
	Site               string  `json:"site,omitempty"`
	HourPrice          float64 `json:"hour_price,omitempty"`
	Currency           string  `json:"currency,omitempty"`
	LeastBilledSeconds float64 `json:"least_billed_seconds,omitempty"`
	// Bee is the version of another bee program that runs its jobs, or empty.
	Bee string `json:"bee,omitempty"`
	// Containers are how many all points of a block take, where they share some; 0: each has its own.
	Containers int `json:"containers,omitempty"`
	// Keys are the SHA-256 digests of its jobs by key, in hex.
	Keys map[string]string `json:"keys,omitempty"`
}

// OtherKeys are the keys of jobs whose digests differ, sorted.
func OtherKeys(a, b map[string]string) []string {
	var keys []string
	for key := range a {
		if a[key] != b[key] {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, is := a[key]; !is {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Point is one combination of the values of variables.
type Point struct {
	// ID is such as "ranks=2,case=small.cfg"; empty where nothing varies.
	ID           string            `json:"id"`
	Values       map[string]string `json:"values,omitempty"`
	Environments []string          `json:"environments"`
}

// Metric is a figure of the job.
type Metric struct {
	Name    string `json:"name"`
	Unit    string `json:"unit,omitempty"`
	Better  string `json:"better"` // lower or higher
	Primary bool   `json:"primary,omitempty"`
	// Sweep has one figure for each key of a table.
	Sweep bool `json:"sweep,omitempty"`
}

// Claim is what a paper says of a figure against another.
type Claim struct {
	Environment string `json:"environment"`
	Metric      string `json:"metric"`
	// Key is that of a sweep, else empty.
	Key string `json:"key,omitempty"`
	// Against is the other environment, and AgainstMetric the other figure.
	Against       string `json:"against"`
	AgainstMetric string `json:"against_metric"`
	// Points where it holds, with the points that they are compared with.
	Points []PointPair `json:"points"`
	// Spread: it is about the spread of the values, and Own: about that of the environment alone.
	Spread bool `json:"spread,omitempty"`
	Own    bool `json:"own,omitempty"`
	// Low and High bound the logarithm of the ratio; positive is worse; absent: no bound.
	Low  *float64 `json:"low_log,omitempty"`
	High *float64 `json:"high_log,omitempty"`
	// Text is the claim in words, and From the paper and the figure.
	Text string `json:"text"`
	From string `json:"from"`
	// StandIn names what was measured in place of what the paper measured, or is empty.
	StandIn string `json:"stand_in,omitempty"`
}

// PointPair is a point and the one that it is compared with, often the same.
type PointPair struct {
	Point   string `json:"point"`
	Against string `json:"against"`
}

// Machine is where bee itself ran.
type Machine struct {
	Bee         string `json:"bee"`
	Host        string `json:"host,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
	CPU         string `json:"cpu,omitempty"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	// CacheBytes is the size of the last-level cache; 0: not known.
	CacheBytes int64 `json:"cache_bytes,omitempty"`
}

// Status of a measurement.
type Status string

// The statuses. A measurement that failed and was tried again has one row each.
const (
	OK      Status = "ok"
	Failed  Status = "failed"
	GivenUp Status = "given up" // not measured: the environment failed too often
)

// Row is one measurement.
type Row struct {
	Schema      int    `json:"schema"`
	Point       string `json:"point"`
	Environment string `json:"environment"`
	// Again is the baseline measured a second time in its block, for A/A.
	Again bool `json:"again,omitempty"`
	// Block counts from 0, which warms up and does not count. Place counts from 0 within it.
	Block int `json:"block"`
	Place int `json:"place"`
	// Epoch counts boots and sets of hosts. Only rows of one epoch are paired.
	Epoch int `json:"epoch"`
	// Try counts from 1.
	Try    int       `json:"try"`
	Status Status    `json:"status"`
	Begin  time.Time `json:"begin"`
	// Seconds of the whole measurement, as seen from outside; of a container that several share,
	// the share of each.
	Seconds float64 `json:"seconds"`
	// Shared is how many measurements shared the container or guest; 0: it had its own.
	Shared int `json:"shared,omitempty"`
	// GuestSeconds and HostSeconds are the time of the command in a virtual machine, by its clock
	// and by that of its host; absent: not known.
	GuestSeconds float64             `json:"guest_seconds,omitempty"`
	HostSeconds  float64             `json:"host_seconds,omitempty"`
	Metrics      map[string][]Figure `json:"metrics,omitempty"`
	// YardstickSeconds is the time of a fixed piece of arithmetic just before. It and what follows
	// to Steal are of this machine, and 0 where another one computed.
	YardstickSeconds float64 `json:"yardstick_seconds,omitempty"`
	// Load is the load average of the host just before; Steal the share of processor time
	// that a hypervisor withheld during the measurement.
	Load float64 `json:"load"`
	// Others is the mean number of other processes that ran or could run while the yardstick was
	// measured.
	Others float64 `json:"others,omitempty"`
	// Pressure is the share of the last ten seconds before in which some process waited for a
	// processor (pressure stall information), CachedBytes the page cache, and MHz the mean
	// frequency of the processors then. 0: none, or not known.
	Pressure    float64 `json:"pressure,omitempty"`
	CachedBytes int64   `json:"cached_bytes,omitempty"`
	MHz         float64 `json:"mhz,omitempty"`
	Steal       float64 `json:"steal"`
	// Waited and Reclaimed are the shares of the measurement in which some process waited for a
	// processor and for memory (pressure stall information), and OthersDuring is the mean number of
	// processors that neither the run nor bee used. 0: none, or not known.
	Waited       float64 `json:"waited,omitempty"`
	Reclaimed    float64 `json:"reclaimed,omitempty"`
	OthersDuring float64 `json:"others_during,omitempty"`
	// Programs are the SHA-256 digests of what computed, by path.
	Programs map[string]string `json:"programs,omitempty"`
	// Foreign are programs and libraries of the host that were used in place of the image's.
	Foreign []string `json:"foreign,omitempty"`
	// CMA is what may prevent MPI processes of one host from copying out of each other's memory: open
	// for nothing, restricted, filtered or off; "": not known. MPISettings are variables that choose how
	// they send messages.
	CMA         string            `json:"cma,omitempty"`
	MPISettings map[string]string `json:"mpi_settings,omitempty"`
	// Runtime is the one that ran it. An environment may leave it to bee, and native has two.
	Runtime string `json:"runtime,omitempty"`
	// Cores are those that a process could use; 0: not known.
	Cores int `json:"cores,omitempty"`
	// Bound are those of the process that could use the fewest; 0: not known.
	Bound int `json:"bound,omitempty"`
	// MemoryLimit is what processes could use in bytes, where the study wants it to be the same;
	// 0: no limit; absent: not known.
	MemoryLimit *int64 `json:"memory_limit,omitempty"`
	// Unfair are findings that withhold the verdict; Flags stand beside it.
	Unfair []string `json:"unfair,omitempty"`
	Flags  []string `json:"flags,omitempty"`
	Error  string   `json:"error,omitempty"`
	Run    string   `json:"run,omitempty"`
	// Hosts are those of the run, sorted. Rows of one site are paired if they have the same.
	Hosts []string `json:"hosts,omitempty"`
	// Site is that which the environment names for itself; empty: it is measured where the
	// others are.
	Site  string `json:"site,omitempty"`
	Image string `json:"image,omitempty"`
	// VMCommand is the command line of QEMU for the guest of node 0, in the first measurement of a
	// process in this environment at this point. Later ones differ in names of files.
	VMCommand string `json:"vm_command,omitempty"`
	// Log is the file with all output, relative to the directory.
	Log string `json:"log,omitempty"`
}

// Figure is one value of a metric. Key is that of a table's row, else empty.
type Figure struct {
	Key   string  `json:"key,omitempty"`
	Value float64 `json:"value"`
}

// Counts reports whether a row is one of the counted blocks and was measured.
func (r *Row) Counts() bool { return r.Block > 0 && r.Status == OK }
