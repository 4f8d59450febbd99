# A program of Ruby's kubeclient that does what it is told on its standard input, a
# line at a time, and answers each line by one. OTHER names a second context.
require "kubeclient"

$stdout.sync = true
PRINTING = Mutex.new

def say(*words)
  PRINTING.synchronize { puts words.map { |w| w.to_s.split.join(" ") }.join(" ") }
end

def connect(name)
  context = Kubeclient::Config.read(ENV.fetch("KUBECONFIG")).context(name)
  Kubeclient::Client.new(context.api_endpoint, "v1", ssl_options: context.ssl_options, auth_options: context.auth_options)
end

CLIENT = connect(nil)
OTHER = ENV["OTHER"] && connect(ENV["OTHER"])

def list(client = CLIENT) = client.get_config_maps(namespace: "default").count

def watching
  CLIENT.watch_config_maps(namespace: "default") { |notice| say("event", notice.object.metadata.name) }
  say("ended")
rescue StandardError => e
  say("ended", e.class, e.message)
end

def burst(count, *clients)
  threads = Array.new(count) do |i|
    Thread.new do
      Thread.current.report_on_exception = false
      list(clients[i % clients.size])
    end
  end
  threads.each(&:value).size
end

def run(verb, arg)
  case verb
  when "list" then list
  when "create" then CLIENT.create_config_map(Kubeclient::Resource.new(metadata: { name: arg, namespace: "default" })).metadata.name
  when "watch" then Thread.new { watching } && ""
  when "burst" then burst(arg.to_i, CLIENT)
  when "both" then burst(arg.to_i, CLIENT, OTHER)
  else raise ArgumentError, verb
  end
end

while (line = $stdin.gets)
  verb, arg = line.split(" ", 2)
  begin
    say("ok", run(verb, arg&.strip))
  rescue StandardError => e
    say("failed", e.class, e.message)
  end
end
exit!(0)
