# One makefile, no recursion.  `make help` lists the targets.

VERSION    := 0.1.0
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/caisson
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man
DATADIR    ?= $(PREFIX)/share/caisson
BASHDIR    ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR     ?= $(PREFIX)/share/zsh/site-functions
UNITDIR    ?= $(PREFIX)/lib/systemd
INSTALL    ?= install
OBJCOPY    ?= objcopy
PKG_CONFIG ?= pkg-config
PYTHON     ?= /usr/bin/python3

# MODE=release (default), asan, or stops; each has its own tree.  In stops every program has
# named points at which the death tests kill it (common/stop.h); that of asan is sanitized, too.
MODE ?= release
B    := $(if $(filter release,$(MODE)),build,build/$(MODE))
O    := $B/obj

.DEFAULT_GOAL := all

# What the build consists of.  A folder is a trust domain and becomes one archive of all
# its files but main.c; a new .c file needs no change here.
folders   := common supervisor supervisor/doctor worker worker/files worker/command broker broker/authority ledger client client/lib gateway worker/sdk
bin       := caisson caissond
libexec   := caisson-broker caisson-ledger caisson-worker caisson-files caisson-command caisson-gateway
dir_caisson        := client
dir_caissond       := supervisor
dir_caisson-broker := broker
dir_caisson-ledger := ledger
dir_caisson-worker := worker
dir_caisson-files  := worker/files
dir_caisson-gateway := gateway

# Each process links only what it needs (docs/ARCHITECTURE.md, "Dependencies").
uses_client       := libevent_core openssl libbsd-overlay
uses_supervisor   := libevent_core libseccomp yaml-0.1 libbsd-overlay
uses_broker       := libevent_core libseccomp libcrypto libbsd-overlay
uses_ledger       := libevent_core libseccomp libcrypto sqlite3 libbsd-overlay
uses_worker/files := libevent_core libseccomp libcrypto libbsd-overlay
uses_gateway      := libevent_core libseccomp libssl libcrypto libbsd-overlay
also_broker       := broker/authority
also_supervisor   := supervisor/doctor
also_client       := client/lib

# Flags of ours; CFLAGS, CPPFLAGS and LDFLAGS stay the user's.
warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	-Wcast-qual -Wvla -Wundef -Wformat=2 -Wimplicit-fallthrough -Wno-format-nonliteral \
	$(if $(WERROR)$(CI),-Werror)
all_pkgs := libevent_core libseccomp libbsd-overlay libssl libcrypto sqlite3 yaml-0.1 jansson
cppflags  = -D_GNU_SOURCE -I. -DVERSION='"$(VERSION)"' -DLIBEXECDIR='"$(LIBEXECDIR)"' $(pkg_cflags)
pkg_cflags := $(shell $(PKG_CONFIG) --cflags $(all_pkgs) 2>/dev/null)
CFLAGS   ?= -O2 -g
# musl's compiler sees its own headers only: those of the kernel come last.
kernel_headers := $(patsubst %,-idirafter %,/usr/include/$(shell $(CC) -print-multiarch) /usr/include)
cfi      := $(if $(filter x86_64,$(shell uname -m)),-fcf-protection)
harden   := -fstack-protector-strong -fstack-clash-protection $(cfi) -fPIE -fno-strict-aliasing \
	$(if $(filter release,$(MODE)),-D_FORTIFY_SOURCE=2)
ldharden := -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed
mode_release :=
mode_asan := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -DCAISSON_ASAN=1
mode_stops := -DCAISSON_TEST_STOPS $(if $(filter asan,$(BESIDE)),$(mode_asan))
mode_fuzz := -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -DCAISSON_ASAN=1
mode     := $(mode_$(MODE))
sanitized := $(findstring -fsanitize,$(mode))

Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '  %-6s %s\n' $(1) $@)

all: $(bin:%=$B/bin/%) $(libexec:%=$B/libexec/%) $B/lib/libcaisson-runtime.a $B/lib/libcaisson.a	## build everything

obj = $(patsubst %.c,$O/%.o,$(filter-out %/main.c,$(wildcard $(1)/*.c)))
ar  = $B/lib/lib$(subst /,-,$(1)).a
define folder
$(call ar,$(1)): $(call obj,$(1))
endef
$(foreach f,$(folders),$(eval $(call folder,$f)))

libs_of = $(if $(uses_$(1)),$(shell $(PKG_CONFIG) --libs $(uses_$(1))))
define program
$B/$(1)/$(2): $O/$(dir_$(2))/main.o $(call ar,$(dir_$(2))) $(foreach a,$(also_$(dir_$(2))),$(call ar,$a)) $(call ar,common)
	@mkdir -p $$(@D)
	$$(call say,LD)
	$$Q$$(CC) -pie $$(mode) $$(ldharden) $$(LDFLAGS) -o $$@ -Wl,--start-group $$^ -Wl,--end-group $$(call libs_of,$(dir_$(2))) -lpthread $$(LDLIBS)
endef
$(foreach p,$(bin),$(eval $(call program,bin,$p)))
static    := caisson-worker caisson-command
$(foreach p,$(filter-out $(static),$(libexec)),$(eval $(call program,libexec,$p)))

# The launcher is static, as is what waits to become a command: their pages are few, and their
# start needs no file of the chamber.  They are linked with musl where that is installed: glibc
# asks the processor at each start what it can do, and on a virtual machine every answer is a
# trap, 0.3 ms in all.
musl_cc   := $(if $(sanitized),,$(shell command -v musl-gcc))
worker_cc := $(or $(musl_cc),$(CC))
$O/launcher/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$Q$(worker_cc) -std=gnu11 -D_GNU_SOURCE -I. $(if $(musl_cc),$(kernel_headers)) $(CPPFLAGS) $(warnings) $(harden) $(CFLAGS) $(mode) -MMD -MP -c -o $@ $<

$B/libexec/caisson-worker: $(patsubst %.c,$O/launcher/%.o,$(wildcard worker/*.c))
$B/libexec/caisson-command: $(patsubst %.c,$O/launcher/%.o,$(wildcard worker/command/*.c) \
	worker/sdk/caisson_value.c)
$(static:%=$B/libexec/%):
	@mkdir -p $(@D)
	$(call say,LD)
	$Q$(worker_cc) $(if $(sanitized),-pie,-static) $(mode) $(ldharden) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$O/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$Q$(CC) -std=gnu11 $(cppflags) $(CPPFLAGS) $(warnings) $(harden) $(CFLAGS) $(mode) -MMD -MP -c -o $@ $<

$B/lib/%.a:
	@mkdir -p $(@D)
	$(call say,AR)
	$Qrm -f $@ && $(AR) rcs $@ $^

$B/lib/libcaisson-runtime.a: $(call obj,worker/sdk)

# What a client links: one object, whose only global names are those of its header.
$B/lib/libcaisson.a: $O/libcaisson.o
$O/libcaisson.o: $(call obj,client/lib) $(call ar,common)
	$(call say,LD)
	$Q$(LD) -r -o $@.all $(filter %.o,$^) $(filter %.a,$^)
	$Q$(OBJCOPY) --wildcard --keep-global-symbol='caisson_*' $@.all $@ && rm -f $@.all

# ---- tests ----------------------------------------------------------------------------

units    := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
fuzzers  := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
archives := $(foreach f,$(folders),$(call ar,$f))
all_libs := $(shell $(PKG_CONFIG) --libs $(all_pkgs) check 2>/dev/null)
T ?=

# A unit test may use every module: the linker takes only what it names.
$B/test/%: $O/tests/unit/%.o $(archives)
	@mkdir -p $(@D)
	$(call say,LD)
	$Q$(CC) -pie $(mode) $(LDFLAGS) -o $@ $< -Wl,--start-group $(archives) -Wl,--end-group $(all_libs) -lpthread

# Programs that the tests in Python start (scripted peers, probes): tests/programs/*.c.
$B/test/program/%: $O/tests/programs/%.o $(archives)
	@mkdir -p $(@D)
	$(call say,LD)
	$Q$(CC) -pie $(mode) $(LDFLAGS) -o $@ $< -Wl,--start-group $(archives) -Wl,--end-group $(all_libs) -lpthread

# The escape suite is one static program, hostile code that no sanitizer may look after.  It is
# linked low, as some of it enters the kernel by 32-bit ways.
escapes := $(patsubst %.c,$O/%.o,$(wildcard tests/escape/*.c tests/escape/*/*.c))
$O/tests/escape/%.o: tests/escape/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$Q$(CC) -std=gnu11 $(cppflags) $(CPPFLAGS) $(warnings) -fno-pie -O1 -MMD -MP -c -o $@ $<
$B/escape/escape: $(escapes)
	@mkdir -p $(@D)
	$(call say,LD)
	$Q$(CC) -static -no-pie -o $@ $^ -lpthread

# The failure matrix: a supervisor's launch, traced (tests/fault/fault.h).
$B/test/fault: $(patsubst %.c,$O/%.o,$(wildcard tests/fault/*.c)) $(archives)
	@mkdir -p $(@D)
	$(call say,LD)
	$Q$(CC) -pie $(mode) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(archives) -Wl,--end-group $(all_libs) -lpthread

# Every fuzz target is also a program that replays its corpus.
$B/test/replay_%: $O/tests/fuzz/fuzz_%.o $O/tests/fuzz/replay.o $(archives)
	@mkdir -p $(@D)
	$(call say,LD)
	$Q$(CC) -pie $(mode) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(archives) -Wl,--end-group $(all_libs) -lpthread

$B/test/seeds: $O/tests/fuzz/seeds.o $(archives)
	@mkdir -p $(@D)
	$(call say,LD)
	$Q$(CC) -pie $(mode) $(LDFLAGS) -o $@ $< -Wl,--start-group $(archives) -Wl,--end-group $(all_libs) -lpthread

programs := $(patsubst tests/programs/%.c,$B/test/program/%,$(wildcard tests/programs/*.c)) \
	$(if $(filter x86_64,$(shell uname -m)),$B/escape/escape $B/test/fault)
run_unit  = for t in $(1); do $$t || exit 1; done

check-unit: $(units:%=$B/test/%) all			## unit tests only; T=name for one
	$Q$(call run_unit,$(if $T,$(filter %$T,$(units:%=$B/test/%)),$(units:%=$B/test/%)))
check-fuzz: $(fuzzers:fuzz_%=$B/test/replay_%)		## replay the corpora
	$Qfor f in $(fuzzers:fuzz_%=%); do $B/test/replay_$$f tests/fuzz/corpus/$$f || exit 1; done
check-integration: all $(programs) stops			## tests against the real processes; T=name for one
	$QCAISSON_BUILD=$(abspath $B) $(PYTHON) tests/run.py $T

# ---- what people call ------------------------------------------------------------------

# The only two commands a newcomer needs install what is missing first.
packages := build-essential pkg-config python3 libevent-dev libseccomp-dev \
	libbsd-dev libyaml-dev libjansson-dev libssl-dev libsqlite3-dev check strace \
	musl-tools

deps:						## install what is missing from Debian's packages
	$Qsh tools/deps.sh $(packages)

# As many jobs as processors, unless the caller has said how many.
jobs = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

demo: deps					## watch an untrusted program do work, and fail at the rest
	$Q$(MAKE) --no-print-directory $(jobs) all
	$QCAISSON_BUILD=$(abspath $B) $(PYTHON) tools/demo.py

# The SDK for JavaScript has tests of its own, which skip where there is no Node.js, and so do
# those that compare with other implementations of JSON Schema, and that use others' clients.
test: packages += nodejs json-schema-test-suite python3-jsonschema python3-yaml curl openssl \
	python3-websockets python3-wsproto
test: deps					## run all tests; T=name for the ones of that name
	$Q$(MAKE) --no-print-directory $(jobs) check

check: all tests check-docs
	$QCAISSON_BUILD=$(abspath $B) $(PYTHON) tests/all.py $T

check-asan:					## all tests again, under ASan and UBSan
	$Q$(MAKE) --no-print-directory MODE=asan check

tests: $(units:%=$B/test/%) $(fuzzers:fuzz_%=$B/test/replay_%) $(programs) stops

# The programs that the death tests kill; never what is shipped.
stops:
	$Q$(MAKE) --no-print-directory MODE=stops BESIDE=$(MODE) B=$B/stops all $B/stops/test/test_launch

check-docs: $B/test/protodoc $B/test/confdoc $B/test/completions	## are the generated pages what the tables say?
	$Q$B/test/protodoc | diff -u docs/PROTOCOL.md - || { echo "docs/PROTOCOL.md is stale: run 'make docs'"; exit 1; }
	$Q$B/test/confdoc | diff -u docs/caisson.yaml.5 - || { echo "docs/caisson.yaml.5 is stale: run 'make docs'"; exit 1; }
	$Q$B/test/confdoc --schema | diff -u dist/caisson.schema.json - || { echo "dist/caisson.schema.json is stale: run 'make docs'"; exit 1; }
	$Q$B/test/completions bash | diff -u dist/completion/caisson.bash - || { echo "dist/completion is stale: run 'make docs'"; exit 1; }
	$Q$B/test/completions zsh | diff -u dist/completion/_caisson - || { echo "dist/completion is stale: run 'make docs'"; exit 1; }
docs: $B/test/protodoc $B/test/confdoc $B/test/completions		## regenerate what is made from the tables
	$Q$B/test/protodoc >docs/PROTOCOL.md
	$Q$B/test/confdoc >docs/caisson.yaml.5
	$Q$B/test/confdoc --schema >dist/caisson.schema.json
	$Q$B/test/completions bash >dist/completion/caisson.bash
	$Q$B/test/completions zsh >dist/completion/_caisson
$B/test/completions: $O/tools/completions.o $(archives)
	@mkdir -p $(@D)
	$(call say,LD)
	$Q$(CC) -pie $(mode) $(LDFLAGS) -o $@ $< -Wl,--start-group $(archives) -Wl,--end-group $(all_libs) -lpthread
$B/test/%doc: $O/tools/%doc.o $(archives)
	@mkdir -p $(@D)
	$(call say,LD)
	$Q$(CC) -pie $(mode) $(LDFLAGS) -o $@ $< -Wl,--start-group $(archives) -Wl,--end-group $(all_libs) -lpthread

escape-table: all $(programs)			## run the escape suite, beside bubblewrap's result, into docs/CONFINEMENT.md
	$QCAISSON_BUILD=$(abspath $B) $(PYTHON) tests/escape/table.py docs/CONFINEMENT.md

conformance: all				## run the conformance matrix into docs/CONFORMANCE.md
	$QCAISSON_BUILD=$(abspath $B) $(PYTHON) tests/conformance/table.py docs/CONFORMANCE.md

bench: all $(patsubst tests/bench/%.c,$B/bench/%,$(wildcard tests/bench/bench_*.c))	## measure against floors of the same run
	$QCAISSON_BUILD=$(abspath $B) $(PYTHON) tests/bench/run.py $T
$B/bench/%: $O/tests/bench/%.o $(archives)
	@mkdir -p $(@D)
	$(call say,LD)
	$Q$(CC) -pie $(mode) $(LDFLAGS) -o $@ $< -Wl,--start-group $(archives) -Wl,--end-group $(all_libs) -lpthread

SPAWNS ?= 10000
soak: all $B/test/program/soak			## SPAWNS spawns and kills, and nothing left; 1,000 sessions
	$Qcd tests/integration && CAISSON_BUILD=$(abspath $B) CAISSON_SOAK=$(SPAWNS) \
		$(PYTHON) -W ignore -m unittest test_soak test_network

# Coverage-guided fuzzing needs clang; TIME is seconds per target.
TIME ?= 600
fuzz:						## fuzz every target for TIME seconds (T=name for one)
	$Qcommand -v clang >/dev/null || { echo "fuzzing needs clang: apt-get install clang libclang-rt-14-dev"; exit 1; }
	$Q$(MAKE) --no-print-directory MODE=fuzz CC=clang fuzzers
	$Qsh tools/fuzz.sh $(TIME) build/fuzz $(if $T,$T,$(fuzzers:fuzz_%=%))
fuzzers: $(fuzzers:%=$B/%)
$B/fuzz_%: $O/tests/fuzz/fuzz_%.o $(archives)
	$(call say,LD)
	$Q$(CC) $(mode) -fsanitize=fuzzer $(LDFLAGS) -o $@ $< -Wl,--start-group $(archives) -Wl,--end-group $(all_libs) -lpthread

seeds: $B/test/seeds				## make the protocol's fuzz seeds again, after its rows moved
	$Q$B/test/seeds tests/fuzz/corpus/protocol

lint:						## house rules, cppcheck, man pages, links between pages
	$Qsh tools/lint.sh
loc:						## lines per trust domain
	$Qsh tools/loc.sh

# What a runtime in C includes, and what one in Python or JavaScript copies.
sdk_headers := $(addprefix worker/sdk/,caisson.h caisson_loop.h caisson_provider.h)
sdk_copied := $(wildcard worker/sdk/*.py worker/sdk/*.mjs)
# The client in Python: `pip install $(DATADIR)/python`, or that folder on PYTHONPATH.
python_client := $(addprefix client/python/,pyproject.toml README.md _build.py \
	$(patsubst client/python/%,%,$(wildcard client/python/caisson_client/*.py \
	client/python/caisson_client/*/*.py)) caisson_client/py.typed)

# Units of systemd, as they stand in dist/ and beneath UNITDIR; they name programs of BINDIR.
systemd_units := system/caissond.service system/caissond.socket user/caissond.service

install: all					## honours DESTDIR, PREFIX
	$(INSTALL) -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(LIBDIR) \
		$(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(DATADIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man5 \
		$(DESTDIR)$(MANDIR)/man8 $(DESTDIR)$(DATADIR)/python/caisson_client/aio $(DESTDIR)$(LIBDIR)/pkgconfig
	$(INSTALL) -m 755 $(bin:%=$B/bin/%) $(DESTDIR)$(BINDIR)/
	$(INSTALL) -m 755 $(libexec:%=$B/libexec/%) $(DESTDIR)$(LIBEXECDIR)/
	$(INSTALL) -m 644 $B/lib/libcaisson-runtime.a $B/lib/libcaisson.a $(DESTDIR)$(LIBDIR)/
	$(INSTALL) -m 644 client/lib/libcaisson.h $(DESTDIR)$(INCLUDEDIR)/
	$Qsed 's,@LIBDIR@,$(LIBDIR),; s,@INCLUDEDIR@,$(INCLUDEDIR),; s,@VERSION@,$(VERSION),' \
		dist/caisson.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/caisson.pc && \
		chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/caisson.pc
	$(INSTALL) -m 644 $(sdk_headers) $(DESTDIR)$(INCLUDEDIR)/
	$(INSTALL) -m 644 $(sdk_copied) $(DESTDIR)$(DATADIR)/
	$Qfor f in $(python_client:client/python/%=%); do \
		$(INSTALL) -m 644 client/python/$$f $(DESTDIR)$(DATADIR)/python/$$f || exit 1; done
	$(INSTALL) -d $(DESTDIR)$(UNITDIR)/system $(DESTDIR)$(UNITDIR)/user
	$Qfor f in $(systemd_units); do \
		sed 's,/usr/local/bin/,$(BINDIR)/,' dist/$$f >$(DESTDIR)$(UNITDIR)/$$f && \
		chmod 644 $(DESTDIR)$(UNITDIR)/$$f || exit 1; done
	$(INSTALL) -m 644 dist/caisson.schema.json $(DESTDIR)$(DATADIR)/
	$(INSTALL) -d $(DESTDIR)$(BASHDIR) $(DESTDIR)$(ZSHDIR)
	$Qfor f in $(bin); do \
		$(INSTALL) -m 644 dist/completion/caisson.bash $(DESTDIR)$(BASHDIR)/$$f || exit 1; done
	$(INSTALL) -m 644 dist/completion/_caisson $(DESTDIR)$(ZSHDIR)/
	$(INSTALL) -m 644 docs/caisson.1 $(DESTDIR)$(MANDIR)/man1/
	$(INSTALL) -m 644 docs/caisson.yaml.5 $(DESTDIR)$(MANDIR)/man5/
	$(INSTALL) -m 644 docs/caissond.8 $(DESTDIR)$(MANDIR)/man8/
uninstall:					## remove what install put there
	rm -f $(bin:%=$(DESTDIR)$(BINDIR)/%) $(libexec:%=$(DESTDIR)$(LIBEXECDIR)/%) \
		$(DESTDIR)$(LIBDIR)/libcaisson-runtime.a $(DESTDIR)$(LIBDIR)/libcaisson.a \
		$(DESTDIR)$(LIBDIR)/pkgconfig/caisson.pc \
		$(DESTDIR)$(DATADIR)/caisson.schema.json $(bin:%=$(DESTDIR)$(BASHDIR)/%) \
		$(DESTDIR)$(ZSHDIR)/_caisson \
		$(DESTDIR)$(INCLUDEDIR)/libcaisson.h $(systemd_units:%=$(DESTDIR)$(UNITDIR)/%) \
		$(patsubst worker/sdk/%,$(DESTDIR)$(INCLUDEDIR)/%,$(sdk_headers)) \
		$(patsubst worker/sdk/%,$(DESTDIR)$(DATADIR)/%,$(sdk_copied)) \
		$(patsubst client/python/%,$(DESTDIR)$(DATADIR)/python/%,$(python_client)) \
		$(DESTDIR)$(MANDIR)/man1/caisson.1 $(DESTDIR)$(MANDIR)/man5/caisson.yaml.5 $(DESTDIR)$(MANDIR)/man8/caissond.8
	rmdir $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(DATADIR)/python/caisson_client/aio \
		$(DESTDIR)$(DATADIR)/python/caisson_client $(DESTDIR)$(DATADIR)/python \
		$(DESTDIR)$(DATADIR) 2>/dev/null || :

clean:						## remove build/
	rm -rf build
help:						## this list
	@awk -F ':.*## ' '/^[a-z][a-z -]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "Variables: MODE=asan, T=name, TIME=seconds, PREFIX, DESTDIR, CFLAGS, WERROR=1, V=1"

.PHONY: all stops escape-table conformance deps demo test check check-asan tests check-docs docs bench fuzz fuzzers seeds lint loc install \
	uninstall clean help check-unit check-fuzz check-integration
.SECONDARY:
.DELETE_ON_ERROR:
-include $(shell find $O -name '*.d' 2>/dev/null)
