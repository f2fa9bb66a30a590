# bash completion of caisson and caissond; made from the table of their options
_caisson_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); }
_caisson() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${1##*/}
	local i names=
	COMPREPLY=()
	if [[ $command != caissond ]]; then
		command=${COMP_WORDS[1]}
		if ((COMP_CWORD == 1)); then
			COMPREPLY=($(compgen -W 'run exec learn audit grant ps top session send receive cancel logs config doctor --help --version' -- "$cur")); return
		fi
	fi
	# what stands behind -- is a command line of its own
	for ((i = 1; i < COMP_CWORD; i++)); do
		[[ ${COMP_WORDS[i]} == -- ]] && { _caisson_files; return; }
	done
	case $command:$prev in
	run:--config | run:-c)
		_caisson_files; return ;;
	run:--state)
		_caisson_files; return ;;
	run:--socket)
		_caisson_files; return ;;
	run:--runtime)
		:; return ;;
	run:--app)
		_caisson_files; return ;;
	run:--profile)
		:; return ;;
	run:--message | run:-m)
		:; return ;;
	run:--root)
		_caisson_files; return ;;
	run:--allow)
		:; return ;;
	run:--ro)
		_caisson_files; return ;;
	run:--rw)
		_caisson_files; return ;;
	run:--env)
		:; return ;;
	run:--timeout)
		:; return ;;
	run:--purpose)
		:; return ;;
	run:--tools)
		:; return ;;
	run:--namespaces)
		:; return ;;
	run:--max-steps)
		:; return ;;
	run:--max-tool-calls)
		:; return ;;
	run:--memory)
		:; return ;;
	run:--cpu)
		:; return ;;
	run:--pids)
		:; return ;;
	run:--tmp)
		:; return ;;
	run:--trace)
		:; return ;;
	run:--output | run:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	exec:--config | exec:-c)
		_caisson_files; return ;;
	exec:--state)
		_caisson_files; return ;;
	exec:--app)
		_caisson_files; return ;;
	exec:--profile)
		:; return ;;
	exec:--ro)
		_caisson_files; return ;;
	exec:--rw)
		_caisson_files; return ;;
	exec:--env)
		:; return ;;
	exec:--timeout)
		:; return ;;
	exec:--memory)
		:; return ;;
	exec:--cpu)
		:; return ;;
	exec:--pids)
		:; return ;;
	exec:--tmp)
		:; return ;;
	exec:--output | exec:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	learn:--state)
		_caisson_files; return ;;
	learn:--app)
		_caisson_files; return ;;
	learn:--profile)
		:; return ;;
	learn:--onto)
		_caisson_files; return ;;
	learn:--ro)
		_caisson_files; return ;;
	learn:--rw)
		_caisson_files; return ;;
	learn:--env)
		:; return ;;
	learn:--timeout)
		:; return ;;
	learn:--memory)
		:; return ;;
	learn:--cpu)
		:; return ;;
	learn:--pids)
		:; return ;;
	learn:--tmp)
		:; return ;;
	learn:--output | learn:-o)
		_caisson_files; return ;;
	audit:--state)
		_caisson_files; return ;;
	audit:--run)
		:; return ;;
	audit:--expect)
		:; return ;;
	audit:--trace)
		:; return ;;
	audit:--operation)
		:; return ;;
	audit:--call)
		:; return ;;
	audit:--session)
		:; return ;;
	audit:--principal)
		:; return ;;
	audit:--tool)
		:; return ;;
	audit:--grant)
		:; return ;;
	audit:--outcome)
		COMPREPLY=($(compgen -W 'allowed denied succeeded failed escalated interrupted canceled' -- "$cur")); return ;;
	audit:--since)
		:; return ;;
	audit:--until)
		:; return ;;
	audit:--output | audit:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	grant:--config | grant:-c)
		_caisson_files; return ;;
	grant:--state)
		_caisson_files; return ;;
	grant:--socket)
		_caisson_files; return ;;
	grant:--allow)
		:; return ;;
	grant:--id)
		:; return ;;
	grant:--subject)
		:; return ;;
	grant:--issuer)
		:; return ;;
	grant:--capability)
		:; return ;;
	grant:--owner)
		:; return ;;
	grant:--call)
		:; return ;;
	grant:--resolves)
		:; return ;;
	grant:--from)
		_caisson_files; return ;;
	grant:--not-before)
		:; return ;;
	grant:--expires)
		:; return ;;
	grant:--max-uses)
		:; return ;;
	grant:--delegation-depth)
		:; return ;;
	grant:--purpose)
		:; return ;;
	grant:--output | grant:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	ps:--socket)
		_caisson_files; return ;;
	ps:--output | ps:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	top:--socket)
		_caisson_files; return ;;
	top:--interval)
		:; return ;;
	top:--samples)
		:; return ;;
	top:--output | top:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	session:--socket)
		_caisson_files; return ;;
	session:--url)
		:; return ;;
	session:--token-file)
		_caisson_files; return ;;
	session:--ca)
		_caisson_files; return ;;
	session:--certificate)
		_caisson_files; return ;;
	session:--key)
		_caisson_files; return ;;
	session:--namespace)
		:; return ;;
	session:--timeout)
		:; return ;;
	session:--lease)
		:; return ;;
	session:--queue)
		:; return ;;
	session:--idempotency-key)
		:; return ;;
	session:--output | session:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	send:--socket)
		_caisson_files; return ;;
	send:--url)
		:; return ;;
	send:--token-file)
		_caisson_files; return ;;
	send:--ca)
		_caisson_files; return ;;
	send:--certificate)
		_caisson_files; return ;;
	send:--key)
		_caisson_files; return ;;
	send:--namespace)
		:; return ;;
	send:--message | send:-m)
		:; return ;;
	send:--env)
		:; return ;;
	send:--timeout)
		:; return ;;
	send:--idempotency-key)
		:; return ;;
	send:--shell)
		:; return ;;
	send:--directory)
		_caisson_files; return ;;
	send:--write)
		_caisson_files; return ;;
	send:--mkdir)
		_caisson_files; return ;;
	send:--delete)
		_caisson_files; return ;;
	send:--rename)
		_caisson_files; return ;;
	send:--to)
		_caisson_files; return ;;
	send:--purpose)
		:; return ;;
	send:--max-steps)
		:; return ;;
	send:--max-tool-calls)
		:; return ;;
	send:--output | send:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	receive:--socket)
		_caisson_files; return ;;
	receive:--url)
		:; return ;;
	receive:--token-file)
		_caisson_files; return ;;
	receive:--ca)
		_caisson_files; return ;;
	receive:--certificate)
		_caisson_files; return ;;
	receive:--key)
		_caisson_files; return ;;
	receive:--namespace)
		:; return ;;
	receive:--from)
		:; return ;;
	receive:--output | receive:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	cancel:--socket)
		_caisson_files; return ;;
	cancel:--url)
		:; return ;;
	cancel:--token-file)
		_caisson_files; return ;;
	cancel:--ca)
		_caisson_files; return ;;
	cancel:--certificate)
		_caisson_files; return ;;
	cancel:--key)
		_caisson_files; return ;;
	cancel:--namespace)
		:; return ;;
	cancel:--output | cancel:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	logs:--socket)
		_caisson_files; return ;;
	logs:--url)
		:; return ;;
	logs:--token-file)
		_caisson_files; return ;;
	logs:--ca)
		_caisson_files; return ;;
	logs:--certificate)
		_caisson_files; return ;;
	logs:--key)
		_caisson_files; return ;;
	logs:--namespace)
		:; return ;;
	logs:--output | logs:-o)
		COMPREPLY=($(compgen -W 'human jsonl' -- "$cur")); return ;;
	config:--config | config:-c)
		_caisson_files; return ;;
	doctor:--state)
		_caisson_files; return ;;
	doctor:--output | doctor:-o)
		COMPREPLY=($(compgen -W 'human json' -- "$cur")); return ;;
	caissond:--config | caissond:-c)
		_caisson_files; return ;;
	caissond:--state)
		_caisson_files; return ;;
	caissond:--socket)
		_caisson_files; return ;;
	caissond:--log)
		COMPREPLY=($(compgen -W 'text json' -- "$cur")); return ;;
	caissond:--pid-file)
		_caisson_files; return ;;
	caissond:--ready-fd | caissond:-n)
		:; return ;;
	caissond:--output | caissond:-o)
		COMPREPLY=($(compgen -W 'human json' -- "$cur")); return ;;
	caissond:--check)
		_caisson_files; return ;;
	esac
	case $command in
	run) names='--config --state --socket --runtime --app --profile --message --root --allow --ro --rw --env --timeout --purpose --tools --namespaces --max-steps --max-tool-calls --memory --cpu --pids --tmp --trace --output --verbose --quiet --version --help ' ;;
	exec) names='--config --state --app --profile --ro --rw --env --timeout --memory --cpu --pids --tmp --output --verbose --quiet --version --help ' ;;
	learn) names='--state --app --profile --onto --ro --rw --env --timeout --memory --cpu --pids --tmp --output --verbose --quiet --version --help ' ;;
	audit) names='--state --run --expect --trace --operation --call --session --principal --tool --grant --outcome --since --until --output --verbose --quiet --version --help ' ;;
	grant) names='--config --state --socket --allow --id --subject --issuer --capability --owner --call --resolves --pending --from --not-before --expires --max-uses --delegation-depth --purpose --output --verbose --quiet --version --help ' ;;
	ps) names='--socket --output --verbose --quiet --version --help ' ;;
	top) names='--socket --interval --samples --output --verbose --quiet --version --help ' ;;
	session) names='--socket --url --token-file --ca --certificate --key --namespace --timeout --lease --queue --idempotency-key --immediate --wait --output --verbose --quiet --version --help ' ;;
	send) names='--socket --url --token-file --ca --certificate --key --namespace --message --env --timeout --idempotency-key --detach --shell --directory --stdin --write --append --mkdir --delete --rename --to --recursive --purpose --max-steps --max-tool-calls --output --verbose --quiet --version --help ' ;;
	receive) names='--socket --url --token-file --ca --certificate --key --namespace --from --output --verbose --quiet --version --help ' ;;
	cancel) names='--socket --url --token-file --ca --certificate --key --namespace --output --verbose --quiet --version --help ' ;;
	logs) names='--socket --url --token-file --ca --certificate --key --namespace --follow --output --verbose --quiet --version --help ' ;;
	config) names='--config --verbose --quiet --version --help ' ;;
	doctor) names='--state --output --verbose --quiet --version --help ' ;;
	caissond) names='--config --state --socket --foreground --log --pid-file --ready-fd --output --check --show --doctor --verbose --quiet --version --help ' ;;
	esac
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$names" -- "$cur"))
	else
		_caisson_files
	fi
}
complete -F _caisson caisson caissond
