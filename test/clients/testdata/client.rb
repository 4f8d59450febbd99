# What a program of Ruby's kubeclient does, with the current context of the
# kubeconfig in KUBECONFIG.
require "kubeclient"

context = Kubeclient::Config.read(ENV.fetch("KUBECONFIG")).context
client = Kubeclient::Client.new(context.api_endpoint, "v1", ssl_options: context.ssl_options, auth_options: context.auth_options)

map = Kubeclient::Resource.new(metadata: { name: "from-ruby", namespace: "default" }, data: { a: "b" })
puts "created #{client.create_config_map(map).metadata.name}"
puts "listed #{client.get_config_maps(namespace: "default").count { |m| m.metadata.name == "from-ruby" }}"

watch = client.watch_config_maps(namespace: "default")
watch.each do |notice|
  next unless notice.object.metadata.name == "from-ruby"
  puts "watched #{notice.object.metadata.name}"
  watch.finish
end

puts "patched #{client.patch_config_map("from-ruby", { data: { a: "c" } }, "default").data.a}"

begin
  client.get_nodes
rescue Kubeclient::HttpError => e
  puts "forbidden #{e.error_code}"
end

client.delete_config_map("from-ruby", "default")
