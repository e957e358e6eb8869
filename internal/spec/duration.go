package spec

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// mostDays bounds a duration, which has no more room than some hundred thousand.
const mostDays = 36500

// durationPattern is that of durations in the schema. It has the forms of ParseDuration.
const durationPattern = `^(([0-9.]+d)?([0-9.]+(ns|us|µs|ms|s|m|h))+|[0-9.]+d|([0-9]+-)?[0-9]+:[0-9]{1,2}:[0-9]{1,2}|[0-9]+-[0-9]+(:[0-9]{1,2})?)$`

// durationHint are forms of durations.
const durationHint = "such as 90s, 15m, 2h30m or 2d"

// ParseDuration reads 90s, 15m, 2h30m or 2d, and Slurm's forms that mean one thing only:
// hours:minutes:seconds, days-hours and days-hours:minutes[:seconds]. The hint of an error
// is for people, as that of a Problem.
func ParseDuration(text string) (d time.Duration, hint string, err error) {
	if d, is, err := slurmTime(text); is {
		return d, durationHint, err
	}
	if number, err := strconv.Atoi(text); err == nil && number > 0 {
		return 0, fmt.Sprintf("write %dm for minutes, as for sbatch, or %ds for seconds", number, number), fmt.Errorf("%q has no unit", text)
	}
	days, rest, dated := strings.Cut(text, "d")
	if !dated {
		days, rest = "0", text
	}
	number, ok := decimal(days)
	if ok && (rest != "" || !dated) {
		d, err = time.ParseDuration(rest)
	}
	if !ok || err != nil || d < 0 || number+d.Hours()/24 > mostDays {
		return 0, durationHint, fmt.Errorf("%q is no duration", text)
	}
	return d + time.Duration(number*24*float64(time.Hour)), "", nil
}

// slurmTime reads a time limit as sbatch does, where it has more than one number.
func slurmTime(text string) (d time.Duration, is bool, err error) {
	m := slurmForm().FindStringSubmatch(text)
	switch {
	case m == nil || m[1] == "" && m[3] == "":
		return 0, false, nil
	case m[1] == "" && m[4] == "": // sbatch takes them for minutes and seconds
		return 0, true, fmt.Errorf("%q may be hours and minutes, or minutes and seconds: write %sh%sm or %sm%ss", text, m[2], m[3], m[2], m[3])
	}
	d, ok := SlurmTime(text)
	if !ok {
		err = fmt.Errorf("%q is longer than a century", text)
	}
	return d, true, err
}

func slurmForm() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(\d{1,6})-)?(\d{1,7})(?::(\d{1,2}))?(?::(\d{1,2}))?$`)
}

// SlurmTime reads a time limit in each form of sbatch(1): minutes, minutes:seconds,
// hours:minutes:seconds, days-hours, days-hours:minutes and days-hours:minutes:seconds. It is
// not ok if the text has another form, or names more than a century.
func SlurmTime(text string) (d time.Duration, ok bool) {
	m := slurmForm().FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	numbers := m[2:]
	if m[1] == "" && m[4] == "" { // without hours
		numbers = append([]string{""}, numbers...)
	}
	days, _ := strconv.Atoi(m[1])
	seconds := days * 24 * 60 * 60
	for i, unit := range []int{60 * 60, 60, 1} {
		if number, err := strconv.Atoi(numbers[i]); err == nil { // else it is left out
			seconds += number * unit
		}
	}
	return time.Duration(seconds) * time.Second, seconds <= mostDays*24*60*60
}

// ShortDuration drops the units that are 0 from the end of a duration's text: 4h, not 4h0m0s.
func ShortDuration(text string) string {
	if rest, is := strings.CutSuffix(text, "m0s"); is {
		text = rest + "m"
	}
	if rest, is := strings.CutSuffix(text, "h0m"); is {
		text = rest + "h"
	}
	return text
}
