package console

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
)

// watchPause is how long a screen that is watched stays as it is.
const watchPause = 2 * time.Second

// Watch shows what a function writes, again and again until an interrupt. A smart terminal
// shows it in place; elsewhere it is written again when it has changed.
func (a *Console) Watch(ctx context.Context, write func(*output.Screen) error) error {
	ctx, stop := UntilInterrupt(ctx)
	defer stop()
	inPlace := output.IsTerminal(a.Stdout) && output.IsSmart()
	before := ""
	for {
		var text bytes.Buffer
		if err := write(a.On(a.Stdout).To(&text)); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		var err error
		switch {
		case inPlace:
			_, err = fmt.Fprint(a.Stdout, Redrawn(text.String(), a.On(a.Stdout).Rows()))
		case text.String() != before:
			if before != "" {
				text = *bytes.NewBufferString("\n" + text.String())
			}
			_, err = fmt.Fprint(a.Stdout, text.String())
			before = strings.TrimPrefix(text.String(), "\n")
		}
		if err != nil {
			return err
		}
		if core.Sleep(ctx, watchPause) != nil {
			return nil
		}
	}
}

// Redrawn is a text in place of what a terminal with so many rows shows.
func Redrawn(text string, rows int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(rows-1, 1); len(lines) > most {
		lines = append(lines[:most-1:most-1], fmt.Sprintf("%d more", len(lines)-most+1))
	}
	return "\x1b[H" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\r\n\x1b[J"
}
