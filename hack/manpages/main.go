// Command manpages writes the manual pages of a release: one for each command, made of
// its help, and one for each topic of `bee help`, made of its page of the documentation.
//
//	manpages VERSION DATE DIRECTORY
//
// DATE is that of the version, as YYYY-MM-DD, so that equal sources give equal pages.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/docs"
	"github.com/bee-hpc/bee/internal/cli"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("expected VERSION DATE DIRECTORY, found %d arguments", len(args))
	}
	version, date, dir := args[0], args[1], args[2]
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	pages := commandPages(cli.Commands())
	for _, t := range docs.Topics() {
		p, err := topicPage(t)
		if err != nil {
			return err
		}
		pages = append(pages, p)
	}
	for _, p := range pages {
		if err := os.WriteFile(filepath.Join(dir, p.name+"."+p.section), []byte(p.roff(version, date)), 0o644); err != nil {
			return err
		}
	}
	return nil
}
