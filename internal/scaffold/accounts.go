package scaffold

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Account is an account of a Slurm cluster that a user may use.
type Account struct {
	Name string
	// Partition is the one that it is for; "": all.
	Partition string
	// Default is set where jobs without an account have this one.
	Default bool
	// Wall and Nodes limit each job; 0: they do not.
	Wall  time.Duration
	Nodes int
}

// AccountsCommand lists the accounts of a user, to be read by Accounts. The name is one word.
func AccountsCommand(user string) []string {
	return []string{"sacctmgr", "--noheader", "--parsable2", "show", "user", "name=" + user, "withassoc", "format=user,defaultaccount,account,partition,maxwall,maxtres,cluster"}
}

// IsUser reports whether a name is one word everywhere.
func IsUser(name string) bool { return word.MatchString(name) }

// Accounts reads the accounts of a user, the default one first. Limits are left out where the
// accounting is that of several clusters, which may each have others.
func Accounts(text, user string) []Account {
	var all []Account
	clusters := map[string]bool{}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 7 || f[0] != user || !word.MatchString(f[2]) || f[3] != "" && !word.MatchString(f[3]) || len(all) == mostAccounts {
			continue
		}
		a := Account{Name: f[2], Partition: f[3], Default: f[1] == f[2]}
		if limit, limited := limitOf(f[4]); limited {
			a.Wall = limit
		}
		for _, limit := range strings.Split(f[5], ",") {
			if n, is := strings.CutPrefix(limit, "node="); is {
				if count, err := strconv.Atoi(n); err == nil && count > 0 {
					a.Nodes = count
				}
			}
		}
		clusters[f[6]] = true
		if !slices.ContainsFunc(all, func(o Account) bool { return o.Name == a.Name && o.Partition == a.Partition }) {
			all = append(all, a)
		}
	}
	if len(clusters) > 1 {
		for i := range all {
			all[i].Wall, all[i].Nodes = 0, 0
		}
	}
	slices.SortStableFunc(all, func(a, b Account) int {
		return map[bool]int{true: 0, false: 1}[a.Default] - map[bool]int{true: 0, false: 1}[b.Default]
	})
	return all
}

// Names are the names of accounts, each once.
func Names(all []Account) []string {
	var names []string
	for _, a := range all {
		if !slices.Contains(names, a.Name) {
			names = append(names, a.Name)
		}
	}
	return names
}

// accountFor returns the account for jobs in a partition: the named one, or else the first
// that may use it. What is for that partition alone comes before what is for all.
func accountFor(own []Account, named, partition string) (Account, bool) {
	find := func(fits func(Account) bool) (Account, bool) {
		for _, of := range []string{partition, ""} {
			if i := slices.IndexFunc(own, func(a Account) bool { return a.Partition == of && fits(a) }); i >= 0 {
				return own[i], true
			}
		}
		return Account{}, false
	}
	if named == "" && len(own) > 0 {
		named = own[0].Name
	}
	if a, is := find(func(a Account) bool { return a.Name == named }); is {
		return a, true
	}
	return find(func(Account) bool { return true })
}
