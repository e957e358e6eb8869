package slurm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"
)

// narrow lowers what the partitions allow a job to what the user's account and QOS do,
// where Slurm enforces that. What cannot be asked now is left out: a job that asks for
// more stays in the queue, with a reason that is looked at. set is Slurm's configuration,
// and age how old what else is asked for may be.
func (p *provider) narrow(ctx context.Context, age time.Duration, rooms []room, set map[string]string) {
	if p.s.Job != "" || p.s.Slot == 0 { // what is granted is known, or Slurm chooses
		return
	}
	if !slices.Contains(strings.Split(set["AccountingStorageEnforce"], ","), "limits") {
		return
	}
	me, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return
	}
	accounts, err1 := p.s.Queue.recall(ctx, age, "sacctmgr", "--noheader", "--parsable2", "show", "user", "where", "name="+me.Username, "withassoc", "cluster="+set["ClusterName"],
		"format=account,defaultaccount,partition,maxwall,defaultqos")
	levels, err2 := p.s.Queue.recall(ctx, age, "sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=name,maxwall,flags")
	partitions, err3 := p.s.Queue.recall(ctx, age, "scontrol", "--oneliner", "show", "partition")
	if err1 != nil || err2 != nil || err3 != nil {
		return
	}
	l := limits{accounts: fields(accounts, 5), levels: fields(levels, 3), partitions: map[string]string{}}
	for line := range strings.Lines(partitions) {
		set := pairs(strings.Fields(line))
		l.partitions[set["PartitionName"]] = set["QoS"]
	}
	account, level := cmp.Or(p.option("--account"), p.s.Account), cmp.Or(p.option("--qos"), p.s.QOS)
	for i := range rooms {
		if limit, giver := l.longest(account, level, rooms[i].partition); limit > 0 && (rooms[i].limit == 0 || limit < rooms[i].limit) {
			rooms[i].limit, rooms[i].narrower = limit, giver
		}
	}
}

// limits are what slurmdbd keeps of a user's accounts.
type limits struct {
	accounts   [][]string        // account, the user's default one, partition or "", time, QOS
	levels     [][]string        // QOS, time, flags
	partitions map[string]string // each one's own QOS
}

// longest is the most time of a job, and who says so; 0: nobody. The partition's QOS
// comes before that of the job, and both before the account (resource_limits of Slurm).
func (l limits) longest(account, level, partition string) (time.Duration, string) {
	mine := slices.DeleteFunc(slices.Clone(l.accounts), func(a []string) bool {
		return a[0] != cmp.Or(account, a[1]) || a[2] != "" && a[2] != partition
	})
	if len(mine) == 0 {
		return 0, "" // sbatch has something to say about it
	}
	slices.SortStableFunc(mine, func(a, b []string) int { return cmp.Compare(b[2], a[2]) }) // of this very partition first
	level = cmp.Or(level, mine[0][4], "normal")
	order := []string{l.partitions[partition], level}
	if slices.ContainsFunc(l.levels, func(q []string) bool { return q[0] == level && strings.Contains(q[2], "OverPartQOS") }) {
		slices.Reverse(order)
	}
	for _, name := range order {
		for _, q := range l.levels {
			if q[0] == name && q[1] != "" {
				limit, _ := parseSpan(q[1])
				return limit, "QOS " + name
			}
		}
	}
	if mine[0][3] == "" {
		return 0, ""
	}
	limit, _ := parseSpan(mine[0][3])
	return limit, "account " + mine[0][0]
}

// config is what `scontrol show config` tells.
func (p *provider) config(ctx context.Context, age time.Duration) (map[string]string, error) {
	out, err := p.s.Queue.recall(ctx, age, "scontrol", "show", "config")
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(line, "="); ok {
			set[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	if set["ClusterName"] == "" {
		return nil, fmt.Errorf("scontrol said %q", out)
	}
	return set, nil
}

// killWait is how long after TERM Slurm kills a job that it ends; 0: unknown.
func killWait(set map[string]string) time.Duration {
	number, _, _ := strings.Cut(set["KillWait"], " ") // 30 sec
	seconds, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// pairs reads words of the form key=value.
func pairs(words []string) map[string]string {
	set := map[string]string{}
	for _, w := range words {
		if key, value, ok := strings.Cut(w, "="); ok {
			set[key] = value
		}
	}
	return set
}

// fields reads lines of so many fields each.
func fields(out string, n int) (list [][]string) {
	for line := range strings.Lines(out) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == n {
			list = append(list, f)
		}
	}
	return list
}
