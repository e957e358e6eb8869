package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"
)

// regulate has the rooms report what the staff allow the user's account and QOS there, where
// Slurm enforces that, and do to jobs that others come before. What cannot be asked now is
// left out: a job that asks for more stays in the queue, with a reason that is looked at.
// set is Slurm's configuration, and age how old what else is asked for may be.
func (p *provider) regulate(ctx context.Context, age time.Duration, rooms []room, set map[string]string) {
	partitions, err := p.settings(ctx, age)
	if err != nil {
		return
	}
	var l limits
	narrows := p.s.Job == "" && p.s.Slot > 0 && slices.Contains(strings.Split(set["AccountingStorageEnforce"], ","), "limits") // else Slurm chooses, or has
	if narrows || set["PreemptType"] == preemptByQOS {
		if l, err = p.limits(ctx, age, set["ClusterName"]); err != nil {
			return
		}
	}
	account, named := cmp.Or(p.option("--account"), p.s.Account), cmp.Or(p.option("--qos"), p.s.QOS)
	for i := range rooms {
		r := &rooms[i]
		if r.granted != nil {
			r.yields, r.grace = grace(set, partitions, r.granted.partition, l.levels, r.granted.qos)
			continue
		}
		own := l.of(account, r.partition)
		level := own.level(named)
		if narrows {
			if limit, giver := l.longest(own, partitions[r.partition]["QoS"], level); limit > 0 && (r.limit == 0 || limit < r.limit) {
				r.limit, r.narrower = limit, giver
			}
		}
		r.yields, r.grace = grace(set, partitions, r.partition, l.levels, level)
	}
}

// settings gives those of all partitions.
func (p *provider) settings(ctx context.Context, age time.Duration) (map[string]map[string]string, error) {
	out, err := p.s.Queue.cachedCall(ctx, age, "scontrol", "--oneliner", "show", "partition")
	all := map[string]map[string]string{}
	for line := range strings.Lines(out) {
		set := pairs(strings.Fields(line))
		all[set["PartitionName"]] = set
	}
	return all, err
}

// limits are what slurmdbd keeps of a user's accounts, and of all QOS.
type limits struct {
	accounts []association
	levels   []qos
}

// association is a user's membership in an account; standard is the account that jobs
// are of which name none.
type association struct{ account, standard, partition, time, qos string }

// qos is one of Slurm's levels of service.
type qos struct{ name, time, flags, grace, preemptMode, preempts string }

func (p *provider) limits(ctx context.Context, age time.Duration, cluster string) (l limits, err error) {
	me, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return l, err
	}
	accounts, err1 := p.s.Queue.cachedCall(ctx, age, "sacctmgr", "--noheader", "--parsable2", "show", "user", "where", "name="+me.Username, "withassoc", "cluster="+cluster,
		"format=account,defaultaccount,partition,maxwall,defaultqos")
	levels, err2 := p.s.Queue.cachedCall(ctx, age, "sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=name,maxwall,flags,gracetime,preemptmode,preempt")
	for _, f := range fields(accounts, 5) {
		l.accounts = append(l.accounts, association{f[0], f[1], f[2], f[3], f[4]})
	}
	for _, f := range fields(levels, 6) {
		l.levels = append(l.levels, qos{f[0], f[1], f[2], f[3], f[4], f[5]})
	}
	return l, errors.Join(err1, err2)
}

// of gives the membership that counts for a job in a partition, or nil: sbatch has
// something to say about it then.
func (l limits) of(account, partition string) *association {
	var found *association
	for _, a := range l.accounts {
		mine := a.account == cmp.Or(account, a.standard) && (a.partition == "" || a.partition == partition)
		if mine && (found == nil || a.partition != "") { // of this very partition first
			found = &a
		}
	}
	return found
}

// level is the QOS of a job that names this one, or none.
func (a *association) level(named string) string {
	if a == nil {
		return named
	}
	return cmp.Or(named, a.qos, "normal")
}

// longest is the most time of a job, and who says so; 0: nobody. The partition's QOS
// comes before that of the job, and both before the account (resource_limits of Slurm).
func (l limits) longest(own *association, ofPartition, ofJob string) (time.Duration, string) {
	if own == nil {
		return 0, ""
	}
	order := []string{ofPartition, ofJob}
	if slices.ContainsFunc(l.levels, func(q qos) bool { return q.name == ofJob && strings.Contains(q.flags, "OverPartQOS") }) {
		slices.Reverse(order)
	}
	for _, name := range order {
		for _, q := range l.levels {
			if q.name == name && q.time != "" {
				limit, _ := parseSpan(q.time)
				return limit, "QOS " + name
			}
		}
	}
	if own.time == "" {
		return 0, ""
	}
	limit, _ := parseSpan(own.time)
	return limit, "account " + own.account
}

// config is what `scontrol show config` reports.
func (p *provider) config(ctx context.Context, age time.Duration) (map[string]string, error) {
	out, err := p.s.Queue.cachedCall(ctx, age, "scontrol", "show", "config")
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
		return nil, fmt.Errorf("scontrol printed %q", out)
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
