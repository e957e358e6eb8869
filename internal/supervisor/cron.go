package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/bee-hpc/bee/internal/shell"
)

// cron is the table of the user's own jobs.
type cron struct{ Login }

func (c cron) usable(context.Context) bool {
	_, err := exec.LookPath("crontab")
	return err == nil
}

func (c cron) install(ctx context.Context) (string, error) {
	return "a line of `crontab -l`", c.replace(ctx, c.line())
}

func (c cron) uninstall(ctx context.Context) error { return c.replace(ctx, "") }

// mark ends the line of the entry, as a comment of the shell.
func (c cron) mark() string { return " # " + c.Name }

// line is the entry. A percent sign would end the command (crontab(5)).
func (c cron) line() string {
	words := []string{"PATH=" + shell.Quote(c.Path)}
	for _, a := range c.Args {
		words = append(words, shell.Quote(a))
	}
	return "@reboot " + strings.ReplaceAll(strings.Join(words, " "), "%", `\%`) + c.mark() + "\n"
}

// replace writes the table with another entry, or none where line is "".
func (c cron) replace(ctx context.Context, line string) error {
	before, err := output(ctx, "", "crontab", "-l")
	if err != nil {
		before = "" // a user without a table is an error of crontab, too
	}
	var table strings.Builder
	for l := range strings.Lines(before) {
		if !strings.HasSuffix(strings.TrimRight(l, "\n"), c.mark()) {
			table.WriteString(strings.TrimRight(l, "\n") + "\n")
		}
	}
	table.WriteString(line)
	if table.String() == before {
		return nil
	}
	_, err = output(ctx, table.String(), "crontab", "-")
	return err
}

// output runs a program with a text as its standard input, and returns its output.
func output(ctx context.Context, input, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input), &out, &errs
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("run %s %s: %w: %s", program, strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.String(), nil
}
