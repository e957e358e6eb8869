// Package topic shows pages of the documentation on a terminal. It knows what a page consists of
// and what a screen can show, and no command.
package topic

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bee-hpc/bee/docs"
)

// pages are those of all topics, a line for the head of each and one for each block. They are read
// from the documentation by a test: a parser of Markdown would cost each start of bee a millisecond.
//
//go:embed pages.jsonl
var pages string

// Page is a page as its blocks, one after the other.
type Page struct {
	Title  string
	Blocks []Block
	// Also are the topics that the page has links to, in the order of all topics.
	Also []docs.Topic
}

// Block is a heading, a paragraph, lines of code or a table.
type Block struct {
	Heading int `json:"heading,omitempty"` // its level: 2 and more; 0: it is no heading
	// Depth is how many lists the block stands in, and Item what it begins with: a bullet or a
	// number. A further block of an item has none.
	Depth int      `json:"depth,omitempty"`
	Item  string   `json:"item,omitempty"`
	Text  Text     `json:"text,omitempty"`
	Code  []string `json:"code,omitempty"`
	Rows  [][]Text `json:"rows,omitempty"` // of a table; the first is its head
}

// Text is a text in its parts.
type Text []Span

// Span is a part of a text that looks the same.
type Span struct {
	Text   string `json:"t"`
	Code   bool   `json:"code,omitempty"`
	Strong bool   `json:"strong,omitempty"`
}

// line is one of pages.
type line struct {
	// Topic begins the page of that name, with its title and the names of the topics that it has links to.
	Topic string   `json:"topic,omitempty"`
	Title string   `json:"title,omitempty"`
	Also  []string `json:"also,omitempty"`
	Block *Block   `json:"block,omitempty"`
}

// Read returns the page of a topic.
func Read(t docs.Topic) (Page, error) {
	var p Page
	d := json.NewDecoder(strings.NewReader(pages))
	for within := false; ; {
		var l line
		switch err := d.Decode(&l); {
		case errors.Is(err, io.EOF) && within:
			return p, nil
		case err != nil:
			return Page{}, fmt.Errorf("read the page of topic %s: %w", t.Name, err)
		case l.Topic != "" && within:
			return p, nil
		case l.Topic == t.Name:
			within, p.Title = true, l.Title
			for _, name := range l.Also {
				if also, is := docs.Find(name); is {
					p.Also = append(p.Also, also)
				}
			}
		case within && l.Block != nil:
			p.Blocks = append(p.Blocks, *l.Block)
		}
	}
}

// String returns a text without its styles.
func (t Text) String() string {
	var b strings.Builder
	for _, s := range t {
		b.WriteString(s.Text)
	}
	return b.String()
}
