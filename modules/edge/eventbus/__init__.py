"""eventbus: between the bus and applications on MQTT brokers.

`module` is the actor. `connection` keeps a session with one broker: `session` runs it with paho-mqtt, on a thread of
its own, `client` and `packets` have the packets of messages, and `publications` has what waits. `routing` says which
topic is for whom, `refusals` what is not taken.

The broker that eventbus runs itself: `internal_broker` has its settings and the text of its files, `mosquitto_files`
its directory, `mosquitto_process` its life, `mosquitto_launcher` is the program that becomes mosquitto.
"""
