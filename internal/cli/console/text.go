package console

import (
	"fmt"
	"time"
)

// Seconds is a number of seconds as people read it.
func Seconds(s float64) string { return DurationText(time.Duration(s * float64(time.Second))) }

// CountText is a number of things as people read it.
func CountText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// OrDash returns a text, or a dash in place of none.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// BytesText is a size as people read it.
func BytesText(n int64) string {
	const units = "kMGTP"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1000, 0
	for v >= 1000 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	return fmt.Sprintf("%.1f %cB", v, units[i])
}

// CostText is a cost as people read it, in a currency; "": that of the sites file. What costs
// something never costs 0.00.
func CostText(c float64, currency string) string {
	text := fmt.Sprintf("%.2f", c)
	if c > 0 && c < 0.005 {
		text = "<0.01"
	}
	if currency != "" {
		text += " " + currency
	}
	return text
}

// DurationText is a duration as people read it. A clock that was put back in
// the meantime makes none of them negative.
func DurationText(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
