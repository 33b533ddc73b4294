"""The Makefile of a paper."""

MAKEFILE = """\
# make          main.pdf, then a look for references, citations and numbers that did not arrive
# make check    all that can be checked without TeX
# make clean    remove what TeX wrote

PYTHON ?= python3
TEX    := $(shell for tex in pdflatex xelatex lualatex; do command -v $$tex && break; done)
BIBTEX := $(shell command -v bibtex 2>/dev/null)
ALONE  := $(shell command -v tectonic 2>/dev/null)
FLAGS  := -interaction=nonstopmode -halt-on-error -no-shell-escape

.PHONY: all check clean
.DELETE_ON_ERROR:

all: check main.pdf
\t@$(PYTHON) check.py --log main.log --pdf main.pdf

check:
\t@$(PYTHON) check.py

# References need a pass for the labels, BibTeX, and two passes to set both.
main.pdf: main.tex references.bib $(wildcard tables/*.tex figures/*)
ifneq ($(and $(TEX),$(BIBTEX)),)
\t$(TEX) $(FLAGS) main.tex
\t$(BIBTEX) main
\t$(TEX) $(FLAGS) main.tex
\t$(TEX) $(FLAGS) main.tex
else ifneq ($(ALONE),)
\t$(ALONE) --keep-logs main.tex
else
\t@echo 'no TeX here: main.pdf needs bibtex with pdflatex, xelatex or lualatex, or tectonic.' >&2
\t@echo 'What can be checked without it holds (make check).' >&2
\t@exit 3
endif

clean:
\trm -f main.aux main.bbl main.blg main.log main.out main.pdf
"""
